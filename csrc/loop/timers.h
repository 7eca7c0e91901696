/* What the owner does at a time. Timers fire one by one. The batch is done
 * together (run_batch), because one write serves many. Its lax part wakes a
 * thread only when late by DLK_TIMERS_LAX. */
#ifndef DLK_LOOP_TIMERS_H
#define DLK_LOOP_TIMERS_H

#include "core/clock.h"
#include "core/list.h"
#include "core/timer.h"

#define DLK_TIMERS_LAX (200 * DLK_MS)

struct dlk_timers {
  struct dlk_heap single, batch, lax;
};

/* A part of the batch; zeroed: in no list. */
struct dlk_due {
  struct dlk_heap_node node;
  bool lax;
};

static inline void dlk_timers_set(struct dlk_timers *t, struct dlk_timer *timer,
                                  int64_t at) {
  dlk_heap_put(&t->single, &timer->node, at);
}

/* Ignores a time that never comes. */
static inline void dlk_timers_set_end(struct dlk_timers *t,
                                      struct dlk_timer *timer, int64_t at) {
  if (at != DLK_FOREVER)
    dlk_heap_put(&t->single, &timer->node, at);
}

static inline void dlk_timers_clear(struct dlk_timers *t,
                                    struct dlk_timer *timer) {
  dlk_heap_remove(&t->single, &timer->node);
}

static inline void dlk_timers_batch_take(struct dlk_timers *t,
                                         struct dlk_due *due) {
  dlk_heap_remove(due->lax ? &t->lax : &t->batch, &due->node);
}

static inline void dlk_timers_batch_put(struct dlk_timers *t,
                                        struct dlk_due *due, int64_t at,
                                        bool lax) {
  dlk_timers_batch_take(t, due);
  due->lax = lax;
  dlk_heap_put(lax ? &t->lax : &t->batch, &due->node, at);
}

/* NULL: it is empty. */
static inline struct dlk_due *
dlk_timers_batch_first(const struct dlk_timers *t) {
  struct dlk_heap_node *n = dlk_heap_first(&t->batch);
  struct dlk_heap_node *lax = dlk_heap_first(&t->lax);
  if (!n || (lax && lax->at < n->at))
    n = lax;
  return n ? DLK_CONTAINER(n, struct dlk_due, node) : NULL;
}

static inline int64_t dlk_timers_at(const struct dlk_heap *h) {
  return h->root ? h->root->at : DLK_FOREVER;
}

static inline int64_t dlk_timers_least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static inline int64_t dlk_timers_batch_next(const struct dlk_timers *t) {
  return dlk_timers_least(dlk_timers_at(&t->batch), dlk_timers_at(&t->lax));
}

static inline int64_t dlk_timers_next(const struct dlk_timers *t) {
  return dlk_timers_least(dlk_timers_at(&t->single), dlk_timers_batch_next(t));
}

/* By when a thread has to be awake. */
static inline int64_t dlk_timers_latest(const struct dlk_timers *t) {
  int64_t lax = dlk_time_add(dlk_timers_at(&t->lax), DLK_TIMERS_LAX);
  return dlk_timers_least(lax, dlk_timers_least(dlk_timers_at(&t->single),
                                                dlk_timers_at(&t->batch)));
}

#endif
