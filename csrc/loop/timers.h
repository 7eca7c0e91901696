/* What is to be done at a time, by the loop's owner. Timers fire one by one.
 * What is in the batch is done together by whoever put it there, because one
 * write serves many of them (dlk_loop_calls, run_batch). */
#ifndef DLK_LOOP_TIMERS_H
#define DLK_LOOP_TIMERS_H

#include "core/clock.h"
#include "core/timer.h"

struct dlk_timers {
  struct dlk_heap single, batch;
};

static inline void dlk_timers_set(struct dlk_timers *t, struct dlk_timer *timer,
                                  int64_t at) {
  dlk_heap_put(&t->single, &timer->node, at);
}

/* The same, but for a time that never comes. */
static inline void dlk_timers_set_end(struct dlk_timers *t,
                                      struct dlk_timer *timer, int64_t at) {
  if (at != DLK_FOREVER)
    dlk_heap_put(&t->single, &timer->node, at);
}

static inline void dlk_timers_clear(struct dlk_timers *t,
                                    struct dlk_timer *timer) {
  dlk_heap_remove(&t->single, &timer->node);
}

static inline int64_t dlk_timers_batch_next(const struct dlk_timers *t) {
  const struct dlk_heap_node *n = dlk_heap_first(&t->batch);
  return n ? n->at : DLK_FOREVER;
}

/* When the first of all is due. */
static inline int64_t dlk_timers_next(const struct dlk_timers *t) {
  const struct dlk_heap_node *n = dlk_heap_first(&t->single);
  int64_t batch = dlk_timers_batch_next(t);
  return n && n->at < batch ? n->at : batch;
}

/* Fires the single ones that are due. One that sets itself again for a time
 * gone by fires in the next turn, not in this one: a turn is always finite. */
void dlk_timers_fire(struct dlk_timers *t, int64_t now);

#endif
