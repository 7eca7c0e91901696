/* Lists of free blocks, owned by the thread that set `busy`. A thread that
 * finds it set uses malloc or free instead of waiting, because the holder may
 * be descheduled.
 *
 * Sanitizers have to see each free, so under them no block is kept. */
#include "core/pool.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ ||             \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KEEPS false
#else
#define KEEPS true
#endif

struct dlk_spare {
  struct dlk_spare *next;
};

void dlk_pool_init(struct dlk_pool *p, size_t least, size_t max) {
  least = (least + 7) / DLK_POOL_STEP * DLK_POOL_STEP + 8;
  *p = (struct dlk_pool){.least = least, .max = KEEPS ? max : 0};
  atomic_init(&p->busy, false);
}

/* The size class; DLK_POOL_SIZES or more: none. */
static size_t size_of(const struct dlk_pool *p, size_t size) {
  size_t more = size > p->least ? size - p->least : 0;
  return (more + DLK_POOL_STEP - 1) / DLK_POOL_STEP;
}

static bool enter(struct dlk_pool *p) {
  return !atomic_exchange_explicit(&p->busy, true, memory_order_acquire);
}

static void leave(struct dlk_pool *p) {
  atomic_store_explicit(&p->busy, false, memory_order_release);
}

static struct dlk_spare *unlink_first(struct dlk_pool *p, size_t which) {
  struct dlk_spare *s = p->first[which];
  if (s) {
    p->first[which] = s->next;
    p->count--;
  }
  return s;
}

static struct dlk_spare *pop(struct dlk_pool *p, size_t which) {
  if (!enter(p))
    return NULL;
  struct dlk_spare *s = unlink_first(p, which);
  leave(p);
  return s;
}

/* The block to free, or NULL. */
static struct dlk_spare *push(struct dlk_pool *p, struct dlk_spare *s,
                              size_t which) {
  struct dlk_spare *out = NULL;
  if (!enter(p))
    return s;
  /* Makes room at the cost of another size. */
  for (size_t i = 0; p->count == p->max && !out && i < DLK_POOL_SIZES; i++)
    if (i != which)
      out = unlink_first(p, i);
  if (p->count < p->max) {
    s->next = p->first[which];
    p->first[which] = s;
    p->count++;
  } else {
    out = s;
  }
  leave(p);
  return out;
}

/* No calloc: glibc's bypasses malloc's cache. */
void *dlk_pool_take(struct dlk_pool *p, size_t size) {
  size_t which = size_of(p, size);
  bool fits = which < DLK_POOL_SIZES;
  void *block = fits ? pop(p, which) : NULL;
  if (!block)
    block = malloc(fits ? p->least + which * DLK_POOL_STEP : size);
  return block ? memset(block, 0, size) : NULL;
}

void dlk_pool_give(struct dlk_pool *p, void *block, size_t size) {
  size_t which = size_of(p, size);
  free(which < DLK_POOL_SIZES ? push(p, block, which) : block);
}

void dlk_pool_clear(struct dlk_pool *p) {
  for (size_t i = 0; i < DLK_POOL_SIZES; i++) {
    struct dlk_spare *s;
    while ((s = pop(p, i)))
      free(s);
  }
}
