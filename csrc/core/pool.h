/* A pool of zeroed blocks for objects of each request. It keeps up to `max`
 * free ones, and gives the last first: the processor's cache has it. Any thread
 * may take and give, and none waits. */
#ifndef DLK_CORE_POOL_H
#define DLK_CORE_POOL_H

#include <stdatomic.h>
#include <stddef.h>

struct dlk_spare;

/* n rounded up, so that any object can follow in the block. */
static inline size_t dlk_pool_aligned(size_t n) {
  size_t a = _Alignof(max_align_t);
  return (n + a - 1) / a * a;
}

#define DLK_POOL_SIZES 16
#define DLK_POOL_STEP 16 /* the step of glibc's malloc */

struct dlk_pool {
  atomic_bool busy;                        /* guards the rest */
  struct dlk_spare *first[DLK_POOL_SIZES]; /* each a step larger */
  size_t count;
  size_t least, max; /* constant */
};

void dlk_pool_init(struct dlk_pool *p, size_t least, size_t max);
/* NULL: out of memory. Larger sizes are not kept. */
void *dlk_pool_take(struct dlk_pool *p, size_t size);
void dlk_pool_give(struct dlk_pool *p, void *block, size_t size);
/* Once no thread gives any more. */
void dlk_pool_clear(struct dlk_pool *p);

#endif
