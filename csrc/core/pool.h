/* Blocks of zeroed memory for what is made and freed with every request: up to
 * `max` that are free are kept, by their sizes, the last first, since that is
 * the one that the processor still has at hand. Any thread may take and give;
 * none ever waits. */
#ifndef DLK_CORE_POOL_H
#define DLK_CORE_POOL_H

#include <stdatomic.h>
#include <stddef.h>

struct dlk_spare;

#define DLK_POOL_SIZES 16
#define DLK_POOL_STEP 16 /* glibc's malloc gives 8 bytes more than so many */

struct dlk_pool {
  atomic_bool busy; /* somebody is inside; the rest is his */
  struct dlk_spare *first[DLK_POOL_SIZES]; /* each a step larger */
  size_t count;
  size_t least, max; /* constant */
};

/* least: the smallest block's size. */
void dlk_pool_init(struct dlk_pool *p, size_t least, size_t max);
/* NULL when out of memory. Larger ones than the largest are had, not kept. */
void *dlk_pool_take(struct dlk_pool *p, size_t size);
/* size: as it was asked for. */
void dlk_pool_give(struct dlk_pool *p, void *block, size_t size);
/* Frees what is kept; nobody gives any more. */
void dlk_pool_clear(struct dlk_pool *p);

#endif
