/* What a store may do to be faster. Without it a store is correct: any function
 * may be NULL, any field 0.
 *
 * Local hand-off: a grant may set spare fences aside, above its own. A release
 * then takes the next one for another waiter of its process, and the store is
 * not asked: `hand_over` tells it of the hold's new lease. */
#ifndef DLK_STORE_STORE_FAST_H
#define DLK_STORE_STORE_FAST_H

#include <stdbool.h>
#include <stdint.h>

struct dlk_lease;

/* How often a lease's hold may be handed over. */
struct dlk_handoffs {
  uint32_t most;  /* the engine's wish, growing with the waiters */
  uint32_t spare; /* set aside by the store, at most `most` */
  /* A waiter that came here before this time came before all in the store's
   * queue. The engine sets it when it asks; the store may set a later one when
   * it grants. */
  int64_t before;
};

struct dlk_store_fast {
  /* Writes what `submit` queued, before the loop sleeps. */
  void (*flush)(void *store);
  /* The owner has nothing else to do: blocks for the one answer under way, for
   * DLK_AWAIT_MAX at most and not past a signal. False: nothing came, or its
   * source is unknown, and the loop must run. */
  bool (*await)(void *store);
  /* Returns true while submit and flush take no longer than a write. */
  bool (*prompt)(void *store);
  /* `to` holds what `from` held, under the same name on the server. Its fence,
   * spare and sent are filled in; the store has never seen it. At most a
   * renewal of `from` is under way, and is answered as ever. A store that knows
   * the hold to be gone has set spare to 0. */
  void (*hand_over)(void *store, struct dlk_lease *from, struct dlk_lease *to);
};

#endif
