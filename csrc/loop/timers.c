/* See timers.h. */
#include "loop/timers.h"

#include "core/list.h"

#define MOST 10000 /* in one turn */

void dlk_timers_fire(struct dlk_timers *timers, int64_t now) {
  for (int i = 0; i < MOST; i++) {
    struct dlk_heap_node *n = dlk_heap_first(&timers->single);
    if (!n || n->at > now)
      break;
    dlk_heap_remove(&timers->single, n);
    struct dlk_timer *t = DLK_CONTAINER(n, struct dlk_timer, node);
    t->fire(t, now);
  }
}
