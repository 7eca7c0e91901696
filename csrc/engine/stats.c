/* Only the loop's owner writes, so a load and a store of an atomic are enough:
 * an uncontended lock pays no locked instruction. */
#include "engine/stats.h"

/* In us; the last bucket has none. */
static const int64_t bounds[DLK_STATS_BUCKETS - 1] = {
    100,    250,    500,    1000,    2500,    5000,    10000,    25000,   50000,
    100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000};

static void add(_Atomic uint64_t *n, uint64_t by) {
  uint64_t was = atomic_load_explicit(n, memory_order_relaxed);
  atomic_store_explicit(n, was + by, memory_order_relaxed);
}

void dlk_stats_add(_Atomic uint64_t *counter) {
  add(counter, 1);
}

void dlk_stats_put(struct dlk_histogram *h, int64_t ns) {
  int i = 0;
  int64_t us = ns < 0 ? 0 : ns / DLK_US;
  while (i < DLK_STATS_BUCKETS - 1 && us > bounds[i])
    i++;
  add(&h->buckets[i], 1);
  add(&h->sum_us, (uint64_t)us);
}

double dlk_stats_bound(int bucket) {
  return bucket < DLK_STATS_BUCKETS - 1 ? (double)bounds[bucket] / 1e6 : -1;
}
