/* A timer as the state machines see it: a time and what to do then. Whoever
 * runs the machines (the engine, a simulation) keeps them in a heap. */
#ifndef DLK_CORE_TIMER_H
#define DLK_CORE_TIMER_H

#include "core/heap.h"

struct dlk_timer {
  struct dlk_heap_node node;
  void (*fire)(struct dlk_timer *timer, int64_t now);
};

#endif
