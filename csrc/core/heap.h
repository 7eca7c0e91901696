/* Intrusive pairing heap of times: no allocation, so arming a timer cannot
 * fail. Insert is O(1), removal O(log n) amortised. */
#ifndef DLK_CORE_HEAP_H
#define DLK_CORE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct dlk_heap_node {
  int64_t at;
  struct dlk_heap_node *child, *next, *prev; /* prev: left sibling or parent */
  bool queued;
};

struct dlk_heap {
  struct dlk_heap_node *root;
};

/* NULL: it is empty. */
static inline struct dlk_heap_node *dlk_heap_first(const struct dlk_heap *h) {
  return h->root;
}

/* Moves a queued node. */
void dlk_heap_put(struct dlk_heap *h, struct dlk_heap_node *node, int64_t at);

/* Leaves a node alone that is not queued. */
void dlk_heap_remove(struct dlk_heap *h, struct dlk_heap_node *node);

#endif
