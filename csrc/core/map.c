/* Chained hash map. FNV-1a has a random seed, because users could choose keys
 * that make one chain long. */
#include "core/map.h"

#include <stdlib.h>
#include <string.h>

static uint32_t hash(uint32_t seed, const char *key, size_t len) {
  uint32_t h = 2166136261u ^ seed;
  for (size_t i = 0; i < len; i++)
    h = (h ^ (unsigned char)key[i]) * 16777619u;
  h ^= h >> 15;
  h *= 0x2c1b3c6du;
  return h ^ (h >> 13);
}

void dlk_map_init(struct dlk_map *m, uint32_t seed) {
  memset(m, 0, sizeof *m);
  m->seed = seed;
}

void dlk_map_clear(struct dlk_map *m) {
  free(m->buckets);
  dlk_map_init(m, m->seed);
}

static void grow(struct dlk_map *m) {
  size_t size = m->size ? m->size * 2 : 16;
  struct dlk_map_node **buckets = calloc(size, sizeof(struct dlk_map_node *));
  if (!buckets)
    return;
  for (size_t i = 0; i < m->size; i++) {
    struct dlk_map_node *n = m->buckets[i];
    while (n) {
      struct dlk_map_node *next = n->next;
      n->next = buckets[n->hash & (size - 1)];
      buckets[n->hash & (size - 1)] = n;
      n = next;
    }
  }
  free(m->buckets);
  m->buckets = buckets;
  m->size = size;
}

bool dlk_map_put(struct dlk_map *m, struct dlk_map_node *node, const char *key,
                 size_t len) {
  if (m->count >= m->size)
    grow(m);
  if (!m->buckets)
    return false;
  node->key = key;
  node->len = len;
  node->hash = hash(m->seed, key, len);
  struct dlk_map_node **slot = &m->buckets[node->hash & (m->size - 1)];
  node->next = *slot;
  node->queued = true;
  *slot = node;
  m->count++;
  return true;
}

struct dlk_map_node *dlk_map_get(const struct dlk_map *m, const char *key,
                                 size_t len) {
  if (!m->buckets)
    return NULL;
  uint32_t h = hash(m->seed, key, len);
  struct dlk_map_node *n = m->buckets[h & (m->size - 1)];
  while (n && (n->hash != h || n->len != len || memcmp(n->key, key, len) != 0))
    n = n->next;
  return n;
}

static struct dlk_map_node **slot_of(struct dlk_map *m,
                                     struct dlk_map_node *node) {
  struct dlk_map_node **p = &m->buckets[node->hash & (m->size - 1)];
  while (*p != node)
    p = &(*p)->next;
  return p;
}

void dlk_map_replace(struct dlk_map *m, struct dlk_map_node *old,
                     struct dlk_map_node *node, const char *key) {
  *slot_of(m, old) = node;
  *node = *old;
  node->key = key;
  old->next = NULL;
  old->queued = false;
}

void dlk_map_remove(struct dlk_map *m, struct dlk_map_node *node) {
  if (!node->queued)
    return;
  *slot_of(m, node) = node->next;
  node->next = NULL;
  node->queued = false;
  m->count--;
}

void dlk_map_each(struct dlk_map *m,
                  void (*fn)(struct dlk_map_node *node, void *arg), void *arg) {
  for (size_t i = 0; i < m->size; i++)
    for (struct dlk_map_node *n = m->buckets[i], *next; n; n = next) {
      next = n->next;
      fn(n, arg);
    }
}
