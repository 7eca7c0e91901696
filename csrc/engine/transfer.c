/* Detached holds of stores whose leases hang on the process: a list of the
 * process, under its own lock, from which another Lua state may take one up.
 * While in here a hold is not renewed, so that one that nobody takes up ends at
 * its ttl (from now, unless it was never to be renewed); the list has no entry
 * for a hold that is not held. */
#include "engine/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
  struct entry *next;
  struct dlk_hold *hold;
  char text[64];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;

bool dlk_engine_portable(const struct dlk_engine *e) {
  return e->type->portable;
}

static struct dlk_value *make_text(struct dlk_hold *h, struct entry *en) {
  uint64_t secret[2];
  struct dlk_engine *e = h->engine;
  e->host.random(&e->host, secret, sizeof secret);
  int n = snprintf(en->text, sizeof en->text, "here-%016" PRIx64 "%016" PRIx64,
                   secret[0], secret[1]);
  return dlk_value_string(en->text, (size_t)n);
}

struct dlk_value *dlk_detached_put(struct dlk_hold *h) {
  struct entry *en = calloc(1, sizeof *en);
  struct dlk_value *text = en ? make_text(h, en) : NULL;
  if (!text) {
    free(en);
    return NULL;
  }
  dlk_detached_disown(h);
  h->renew = false;
  h->detached = true;
  if (h->renews)
    h->lease.sent = dlk_clock_now();
  dlk_hold_extended(h, h->lease.ttl);
  dlk_hold_ref(h);
  en->hold = h;
  pthread_mutex_lock(&lock);
  en->next = entries;
  entries = en;
  pthread_mutex_unlock(&lock);
  return text;
}

void dlk_detached_forget(struct dlk_hold *h) {
  h->detached = false;
  pthread_mutex_lock(&lock);
  struct entry **p = &entries;
  while (*p && (*p)->hold != h)
    p = &(*p)->next;
  struct entry *en = *p;
  if (en)
    *p = en->next;
  pthread_mutex_unlock(&lock);
  if (!en)
    return;
  free(en);
  dlk_hold_unref(h);
}

/* ---- attached by another store ----
 *
 * The hold stays with the engine that got it, which renews it and does what is
 * asked of it; the other store hears of it (tickets and news), and closing
 * either ends it. */

void dlk_detached_disown(struct dlk_hold *h) {
  struct dlk_engine *l = h->listener;
  if (!l)
    return;
  pthread_mutex_lock(&l->lock);
  dlk_list_remove(&h->adopted);
  pthread_mutex_unlock(&l->lock);
}

void dlk_detached_adopt(struct dlk_hold *h, struct dlk_engine *by) {
  dlk_detached_disown(h);
  dlk_engine_unref(h->listener);
  h->listener = NULL;
  if (by == h->engine)
    return;
  dlk_engine_ref(by);
  h->listener = by;
  pthread_mutex_lock(&by->lock);
  dlk_list_append(&by->adopted, &h->adopted);
  pthread_mutex_unlock(&by->lock);
}

/* What is in the list is held, so its engine has a reference. */
static struct dlk_hold *take_adopted(struct dlk_engine *e) {
  struct dlk_hold *h = NULL;
  pthread_mutex_lock(&e->lock);
  if (!dlk_list_empty(&e->adopted)) {
    h = DLK_CONTAINER(e->adopted.next, struct dlk_hold, adopted);
    dlk_list_remove(&h->adopted);
    dlk_hold_ref(h);
  }
  pthread_mutex_unlock(&e->lock);
  return h;
}

void dlk_detached_release_adopted(struct dlk_engine *e) {
  for (struct dlk_hold *h; (h = take_adopted(e)) != NULL;) {
    dlk_hold_release_later(h);
    dlk_hold_unref(h);
  }
}

struct dlk_hold *dlk_detached_find(const struct dlk_engine *e, const char *text,
                                   size_t len) {
  pthread_mutex_lock(&lock);
  struct entry **p = &entries;
  while (*p &&
         (strlen((*p)->text) != len || memcmp((*p)->text, text, len) != 0 ||
          strcmp((*p)->hold->engine->shown, e->shown) != 0))
    p = &(*p)->next;
  struct entry *en = *p;
  if (en)
    *p = en->next;
  pthread_mutex_unlock(&lock);
  if (!en)
    return NULL;
  struct dlk_hold *h = en->hold;
  free(en);
  return h;
}
