/* What a store may do to be faster: any function may be NULL, any field 0.
 *
 * Local hand-off: a grant may set spare fences aside, above its own. A release
 * then takes the next one for another waiter of its process, without the store:
 * `hand_over` tells it of the hold's new lease. */
#ifndef DLK_STORE_STORE_FAST_H
#define DLK_STORE_STORE_FAST_H

#include <stdbool.h>
#include <stdint.h>

struct dlk_lease;

struct dlk_handoffs {
  uint32_t most;  /* the engine's wish */
  uint32_t spare; /* set aside by the store */
  /* Waiters that came here before this time came before all in the store's
   * queue. The engine sets it when it asks; a grant may set a later one. */
  int64_t before;
};

struct dlk_store_fast {
  /* Writes what `submit` queued. */
  void (*flush)(void *store);
  /* Blocks for the one answer under way, for DLK_AWAIT_MAX at most and not past
   * a signal. False: nothing came, or its source is unknown, and the loop must
   * run. */
  bool (*await)(void *store);
  /* True: submit and flush take no longer than a write. */
  bool (*prompt)(void *store);
  /* `to` holds what `from` held, under the same name on the server, with fence,
   * spare and sent filled in. The store has not seen it. At most a renewal of
   * `from` is under way, and is answered. A store that knows the hold to be
   * gone has set spare to 0. */
  void (*hand_over)(void *store, struct dlk_lease *from, struct dlk_lease *to);
};

#endif
