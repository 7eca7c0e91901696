/* What a store may do to be faster. A store with none of this is correct: each
 * function may be NULL, and each field stays 0 where it does not fill it in.
 *
 * Local hand-off: a store may set fences aside with a grant, so many above the
 * grant's own. A release in the process that holds then takes the next of them
 * for another waiter of that process, and the store is not asked; `hand_over`
 * tells it that the hold has another lease from now on. */
#ifndef DLK_STORE_STORE_FAST_H
#define DLK_STORE_STORE_FAST_H

#include <stdbool.h>
#include <stdint.h>

struct dlk_lease;

/* Of one lease: how often its hold may be handed on in this process. */
struct dlk_handoffs {
  uint32_t most;  /* the engine's wish; 0: never. It grows with the waiters */
  uint32_t spare; /* fences the store set aside, at most `most` */
  /* A waiter of this process that came before this time came before all that
   * stand in the store's queue. The engine sets it when it asks; a store that
   * knows a later time sets that when it grants. */
  int64_t before;
};

struct dlk_store_fast {
  /* Writes what `submit` only queued. Without it that leaves when the loop
   * next goes to sleep. */
  void (*flush)(void *store);
  /* Blocks for DLK_AWAIT_MAX at most, and not past a signal, to read the one
   * answer that is under way: the owner has nothing else to do. True: something
   * came. False: nothing did, or its source is not known, and the loop has to
   * run. */
  bool (*await)(void *store);
  /* True while submit and flush take no longer than a write to a connection
   * that stands, so that a thread that must not be held up may call them. */
  bool (*prompt)(void *store);
  /* `to` holds what `from` held, on the server under the same name; the store
   * has never seen `to`, whose fence, spare and sent are filled in. Nothing is
   * under way for either but perhaps a renewal of `from`, which is answered as
   * any other. A store that knows the hold of `from` to be gone sets its spare
   * to 0 before that. */
  void (*hand_over)(void *store, struct dlk_lease *from, struct dlk_lease *to);
};

#endif
