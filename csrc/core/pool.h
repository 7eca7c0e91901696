/* A pool of zeroed memory blocks, for objects that are made and freed with
 * every request. Up to `max` free blocks are kept, by their sizes; the last one
 * that came is given first, because it is still in the processor's cache. Any
 * thread may take and give, and none ever waits. */
#ifndef DLK_CORE_POOL_H
#define DLK_CORE_POOL_H

#include <stdatomic.h>
#include <stddef.h>

struct dlk_spare;

/* A size after which any object can stand in the same block. */
static inline size_t dlk_pool_aligned(size_t n) {
  size_t a = _Alignof(max_align_t);
  return (n + a - 1) / a * a;
}

#define DLK_POOL_SIZES 16
#define DLK_POOL_STEP 16 /* glibc's malloc gives 8 bytes more than so many */

struct dlk_pool {
  atomic_bool busy; /* a thread uses the pool: it owns the rest */
  struct dlk_spare *first[DLK_POOL_SIZES]; /* each a step larger */
  size_t count;
  size_t least, max; /* constant */
};

/* least: the smallest block's size. */
void dlk_pool_init(struct dlk_pool *p, size_t least, size_t max);
/* NULL when out of memory. Blocks above the largest size are not kept. */
void *dlk_pool_take(struct dlk_pool *p, size_t size);
/* size: as in the take. */
void dlk_pool_give(struct dlk_pool *p, void *block, size_t size);
/* Frees the kept blocks; no thread may give any more. */
void dlk_pool_clear(struct dlk_pool *p);

#endif
