/* Counting references. */
#ifndef DLK_CORE_COUNT_H
#define DLK_CORE_COUNT_H

#include <stdatomic.h>
#include <stdbool.h>

static inline void dlk_count_add(atomic_int *count) {
  atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

/* Drops one of a count of references, all but the first of which were made by
 * somebody who had one. True: it was the last, and the count stays as it is:
 * whoever finds his to be the only one needs no locked instruction, since
 * nobody is left to make another. */
static inline bool dlk_count_drop(atomic_int *count) {
  return atomic_load_explicit(count, memory_order_acquire) == 1 ||
         atomic_fetch_sub_explicit(count, 1, memory_order_acq_rel) == 1;
}

#endif
