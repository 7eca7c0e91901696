/* Blocks of zeroed memory for what is made and freed with every request: up to
 * `max` that are free are kept, the last first, since that is the one that the
 * processor still has at hand. Any thread may take and give; none ever waits.
 */
#ifndef DLK_CORE_POOL_H
#define DLK_CORE_POOL_H

#include <stdatomic.h>
#include <stddef.h>

struct dlk_spare;

struct dlk_pool {
  atomic_bool busy;        /* somebody is inside; the rest is his */
  struct dlk_spare *first; /* blocks of `size` bytes */
  size_t count;
  size_t size, max; /* constant */
};

void dlk_pool_init(struct dlk_pool *p, size_t size, size_t max);
/* NULL when out of memory. More than p->size is had too, but not kept. */
void *dlk_pool_take(struct dlk_pool *p, size_t size);
/* size: as it was asked for. */
void dlk_pool_give(struct dlk_pool *p, void *block, size_t size);
/* Frees what is kept; nobody gives any more. */
void dlk_pool_clear(struct dlk_pool *p);

#endif
