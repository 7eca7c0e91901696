/* A timer of the state machines; the engine or a simulation has its heap. */
#ifndef DLK_CORE_TIMER_H
#define DLK_CORE_TIMER_H

#include "core/heap.h"

struct dlk_timer {
  struct dlk_heap_node node;
  void (*fire)(struct dlk_timer *timer, int64_t now);
};

#endif
