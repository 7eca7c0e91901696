/* What an engine holds: lease.c, renewal.c. */
#ifndef DLK_ENGINE_HOLD_HELD_H
#define DLK_ENGINE_HOLD_HELD_H

#include "core/list.h"
#include "core/pool.h"
#include "core/timer.h"
#include "engine/engine.h"

struct dlk_lease_calls;

struct dlk_held {
  struct dlk_list list; /* holds that are HELD */
  const struct dlk_lease_calls *calls;
  _Atomic int64_t horizon; /* none is held past this time */
  struct dlk_timer horizon_timer;
  struct dlk_pool spare; /* memory of holds */
  bool suspected;        /* the event `suspicious` was said */
};

#endif
