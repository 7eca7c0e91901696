/* A reference count. */
#ifndef DLK_CORE_COUNT_H
#define DLK_CORE_COUNT_H

#include <stdatomic.h>
#include <stdbool.h>

static inline void dlk_count_add(atomic_int *count) {
  atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

/* True: it was the last, and the count stays as it is. The only owner needs no
 * locked instruction: no other thread can make a reference. */
static inline bool dlk_count_drop(atomic_int *count) {
  return atomic_load_explicit(count, memory_order_acquire) == 1 ||
         atomic_fetch_sub_explicit(count, 1, memory_order_acq_rel) == 1;
}

#endif
