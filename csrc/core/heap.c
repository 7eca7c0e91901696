/* Pairing heap, after Fredman, Sedgewick, Sleator and Tarjan (1986). The
 * two-pass merge is iterative: recursion could exhaust the stack. `prev` is the
 * left sibling, or the parent of a first child; the root has neither `prev` nor
 * `next`. */
#include "core/heap.h"

#include <stddef.h>

typedef struct dlk_heap_node node;

static node *meld(node *a, node *b) {
  if (!a)
    return b;
  if (!b)
    return a;
  if (b->at < a->at) {
    node *t = a;
    a = b;
    b = t;
  }
  b->prev = a;
  b->next = a->child;
  if (a->child)
    a->child->prev = b;
  a->child = b;
  return a;
}

static node *detach(node *n) {
  node *rest = n->next;
  n->next = n->prev = NULL;
  return rest;
}

/* Makes one heap of a list of siblings. */
static node *merge_pairs(node *first) {
  node *pairs = NULL; /* linked through `next`, last pair first */
  while (first) {
    node *a = first;
    node *b = detach(a);
    first = b ? detach(b) : NULL;
    a = meld(a, b);
    a->next = pairs;
    pairs = a;
  }
  node *root = NULL;
  while (pairs) {
    node *a = pairs;
    pairs = detach(a);
    root = meld(root, a);
  }
  return root;
}

void dlk_heap_remove(struct dlk_heap *h, node *n) {
  if (!n->queued)
    return;
  node *children = merge_pairs(n->child);
  n->child = NULL;
  if (h->root == n) {
    h->root = children;
  } else {
    if (n->prev->child == n)
      n->prev->child = n->next;
    else
      n->prev->next = n->next;
    if (n->next)
      n->next->prev = n->prev;
    h->root = meld(h->root, children);
  }
  n->next = n->prev = NULL;
  n->queued = false;
}

void dlk_heap_put(struct dlk_heap *h, node *n, int64_t at) {
  dlk_heap_remove(h, n);
  n->at = at;
  n->child = n->next = n->prev = NULL;
  n->queued = true;
  h->root = meld(h->root, n);
}
