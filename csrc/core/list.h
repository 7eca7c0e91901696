/* Intrusive doubly linked list. A node in no list links to itself, so removing
 * twice is harmless. */
#ifndef DLK_CORE_LIST_H
#define DLK_CORE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct dlk_list {
  struct dlk_list *next, *prev;
};

/* The struct around the member at ptr. */
#define DLK_CONTAINER(ptr, type, member)                                       \
  ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void dlk_list_init(struct dlk_list *l) {
  l->next = l->prev = l;
}

static inline bool dlk_list_empty(const struct dlk_list *l) {
  return l->next == l;
}

static inline void dlk_list_append(struct dlk_list *l, struct dlk_list *node) {
  node->prev = l->prev;
  node->next = l;
  l->prev->next = node;
  l->prev = node;
}

static inline void dlk_list_remove(struct dlk_list *node) {
  node->prev->next = node->next;
  node->next->prev = node->prev;
  dlk_list_init(node);
}

/* Moves all of `from` to `to`, which need not be initialized. */
static inline void dlk_list_take(struct dlk_list *from, struct dlk_list *to) {
  dlk_list_init(to);
  if (dlk_list_empty(from))
    return;
  *to = *from;
  to->next->prev = to;
  to->prev->next = to;
  dlk_list_init(from);
}

#endif
