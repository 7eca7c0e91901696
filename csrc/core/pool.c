/* The list is guarded by `busy`, which whoever gets in holds for a few
 * instructions. Who finds it set goes to malloc or free instead of waiting: the
 * one inside may be a thread that the machine has put aside. Setting it
 * acquires what clearing it released, so the next user of a block comes after
 * all that its last one did with it.
 *
 * Sanitizers have to see the end of each block, so with them none is kept. */
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

void dlk_pool_init(struct dlk_pool *p, size_t size, size_t max) {
  atomic_init(&p->busy, false);
  p->first = NULL;
  p->count = 0;
  p->size = size;
  p->max = KEEPS ? max : 0;
}

static bool enter(struct dlk_pool *p) {
  return !atomic_exchange_explicit(&p->busy, true, memory_order_acquire);
}

static void leave(struct dlk_pool *p) {
  atomic_store_explicit(&p->busy, false, memory_order_release);
}

static struct dlk_spare *pop(struct dlk_pool *p) {
  if (!enter(p))
    return NULL;
  struct dlk_spare *s = p->first;
  if (s) {
    p->first = s->next;
    p->count--;
  }
  leave(p);
  return s;
}

static bool push(struct dlk_pool *p, struct dlk_spare *s) {
  if (!enter(p))
    return false;
  bool room = p->count < p->max;
  if (room) {
    s->next = p->first;
    p->first = s;
    p->count++;
  }
  leave(p);
  return room;
}

/* No calloc: glibc's goes past the cache of its malloc. */
void *dlk_pool_take(struct dlk_pool *p, size_t size) {
  bool fits = size <= p->size;
  void *block = fits ? pop(p) : NULL;
  if (!block)
    block = malloc(fits ? p->size : size);
  return block ? memset(block, 0, size) : NULL;
}

void dlk_pool_give(struct dlk_pool *p, void *block, size_t size) {
  if (size > p->size || !push(p, block))
    free(block);
}

void dlk_pool_clear(struct dlk_pool *p) {
  struct dlk_spare *s;
  while ((s = pop(p)))
    free(s);
}
