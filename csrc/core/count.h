/* Counting references. */
#ifndef DLK_CORE_COUNT_H
#define DLK_CORE_COUNT_H

#include <stdatomic.h>
#include <stdbool.h>

static inline void dlk_count_add(atomic_int *count) {
  atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

/* Drops one of a count of references, where all but the first were made by an
 * owner of another one. True: it was the last, and the count stays as it is.
 * The owner of the only reference needs no locked instruction, since no thread
 * is left that could make another. */
static inline bool dlk_count_drop(atomic_int *count) {
  return atomic_load_explicit(count, memory_order_acquire) == 1 ||
         atomic_fetch_sub_explicit(count, 1, memory_order_acq_rel) == 1;
}

#endif
