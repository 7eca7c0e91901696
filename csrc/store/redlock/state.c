/* A vote keeps its hold. The references are counted in state.h. */
#include "store/redlock/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dlk_redlock_hold_unref(struct dlk_redlock_hold *h) {
  if (--h->refs > 0)
    return;
  h->s->host->timer_clear(h->s->host, &h->timer);
  dlk_list_remove(&h->entry);
  free(h);
}

void dlk_redlock_vote_unref(struct dlk_redlock_vote *v) {
  if (--v->refs > 0)
    return;
  dlk_list_remove(&v->entry);
  dlk_redlock_hold_unref(v->hold);
  free(v);
}

static void free_all(struct dlk_list *list, size_t offset) {
  while (!dlk_list_empty(list)) {
    struct dlk_list *entry = list->next;
    dlk_list_remove(entry);
    free((char *)entry - offset);
  }
}

void dlk_redlock_holds_free(struct dlk_redlock *s) {
  free_all(&s->votes, offsetof(struct dlk_redlock_vote, entry));
  free_all(&s->holds, offsetof(struct dlk_redlock_hold, entry));
}

struct dlk_redlock_hold *dlk_redlock_hold_new(struct dlk_redlock *s,
                                              const struct dlk_lease *l) {
  struct dlk_redlock_hold *h =
      calloc(1, sizeof *h + l->key_len + l->value_len + 2);
  if (!h)
    return NULL;
  char *value = h->text + l->key_len + 1;
  h->s = s;
  h->refs = 1;
  snprintf(h->owner, sizeof h->owner, "%s", l->owner);
  memcpy(h->text, l->key, l->key_len);
  if (l->value_len > 0)
    memcpy(value, l->value, l->value_len);
  h->copy = (struct dlk_lease){.ttl = l->ttl,
                               .min_hold = l->min_hold,
                               .key = h->text,
                               .key_len = l->key_len,
                               .owner = h->owner,
                               .value = l->value ? value : NULL,
                               .value_len = l->value_len};
  uint64_t bits[2];
  s->host->random(s->host, bits, sizeof bits);
  snprintf(h->name, sizeof h->name, "%016" PRIx64 "%08" PRIx64, bits[0],
           bits[1] & UINT32_MAX);
  dlk_list_append(&s->holds, &h->entry);
  return h;
}
