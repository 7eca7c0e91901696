/* Events for Lua's thread. At most MOST wait; the oldest go first, and none is
 * made without memory. So no event is relied upon: a lost lease and a refused
 * password are states besides. */
#include "engine/events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 1024

bool dlk_events_init(struct dlk_events *ev) {
  return pthread_mutex_init(&ev->lock, NULL) == 0;
}

void dlk_events_destroy(struct dlk_events *ev) {
  for (struct dlk_event *one = ev->first; one;) {
    struct dlk_event *next = one->next;
    free(one);
    one = next;
  }
  pthread_mutex_destroy(&ev->lock);
}

void dlk_events_add(struct dlk_events *ev, const char *kind, uint64_t id,
                    const struct dlk_lease *lease, const char *text) {
  size_t key_len = lease ? lease->key_len : 0, size = strlen(text) + 1;
  struct dlk_event *one = malloc(sizeof *one + key_len + size);
  if (!one)
    return;
  one->next = NULL;
  one->lease = id;
  one->key_len = key_len;
  if (key_len)
    memcpy(one->key, lease->key, key_len);
  snprintf(one->kind, sizeof one->kind, "%s", kind);
  one->text = memcpy(one->key + key_len, text, size);
  pthread_mutex_lock(&ev->lock);
  if (ev->last)
    ev->last->next = one;
  else
    ev->first = one;
  ev->last = one;
  struct dlk_event *old = NULL; /* goes for the new one */
  if (++ev->count > MOST) {
    old = ev->first;
    ev->first = old->next;
    ev->count--;
  }
  atomic_store(&ev->any, true);
  pthread_mutex_unlock(&ev->lock);
  free(old);
}

struct dlk_event *dlk_events_take(struct dlk_events *ev) {
  pthread_mutex_lock(&ev->lock);
  struct dlk_event *first = ev->first;
  ev->first = ev->last = NULL;
  ev->count = 0;
  atomic_store(&ev->any, false);
  pthread_mutex_unlock(&ev->lock);
  return first;
}
