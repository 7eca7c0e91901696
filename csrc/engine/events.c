/* News for Lua's thread: lost and revoked leases, and warnings. Kept until
 * somebody asks, at most DLK_NEWS_MAX of them: the oldest go first, because a
 * lost lease can be seen by held() as well. */
#include "engine/internal.h"

#include <stdio.h>
#include <stdlib.h>

/* abroad: e is not the engine whose role we are in, and rings no bell at the
 * end of our turn. */
static void add(struct dlk_engine *e, bool abroad, const char *kind,
                uint64_t hold, const char *text) {
  struct dlk_news *n = malloc(sizeof *n);
  struct dlk_news *old = NULL;
  if (!n)
    return;
  n->next = NULL;
  n->hold = hold;
  snprintf(n->kind, sizeof n->kind, "%s", kind);
  snprintf(n->text, sizeof n->text, "%s", text);
  pthread_mutex_lock(&e->lock);
  if (e->news_last)
    e->news_last->next = n;
  else
    e->news_first = n;
  e->news_last = n;
  if (++e->news_count > DLK_NEWS_MAX) {
    old = e->news_first;
    e->news_first = old->next;
    e->news_count--;
  }
  atomic_store(&e->has_news, true);
  if (!abroad)
    dlk_wakeup_note(&e->loop.wakeup);
  pthread_mutex_unlock(&e->lock);
  if (abroad)
    dlk_wakeup_send(&e->loop.wakeup);
  free(old);
}

void dlk_news_add(struct dlk_engine *e, const char *kind, const char *text) {
  add(e, false, kind, 0, text);
}

void dlk_news_of_hold(const struct dlk_hold *h, const char *kind,
                      const char *text) {
  if (h->listener)
    add(h->listener, true, kind, h->id, text);
  else
    add(h->engine, false, kind, h->id, text);
}

bool dlk_engine_has_news(const struct dlk_engine *e) {
  return atomic_load_explicit(&e->has_news, memory_order_relaxed);
}

struct dlk_news *dlk_engine_news(struct dlk_engine *e) {
  pthread_mutex_lock(&e->lock);
  struct dlk_news *first = e->news_first;
  e->news_first = e->news_last = NULL;
  e->news_count = 0;
  atomic_store(&e->has_news, false);
  pthread_mutex_unlock(&e->lock);
  return first;
}
