/* Intrusive hash map with byte-string keys. The map allocates only its
 * bucket array; when that cannot grow, chains get longer and nothing fails.
 * A key belongs to the owner of its node, and must live while the node is in
 * the map. */
#ifndef DLK_CORE_MAP_H
#define DLK_CORE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dlk_map_node {
  struct dlk_map_node *next;
  const char *key;
  size_t len;
  uint32_t hash;
  bool queued;
};

struct dlk_map {
  struct dlk_map_node **buckets;
  size_t size, count; /* size is a power of two, or 0 */
  uint32_t seed;
};

void dlk_map_init(struct dlk_map *m, uint32_t seed);
/* Frees the bucket array; the nodes are the caller's. */
void dlk_map_clear(struct dlk_map *m);
/* Returns false (and puts nothing) only when the very first bucket array
 * cannot be allocated. Duplicate keys are the caller's affair. */
bool dlk_map_put(struct dlk_map *m, struct dlk_map_node *node, const char *key,
                 size_t len);
struct dlk_map_node *dlk_map_get(const struct dlk_map *m, const char *key,
                                 size_t len);
/* `node`, whose key has the same bytes, is in the place of `old`. */
void dlk_map_replace(struct dlk_map *m, struct dlk_map_node *old,
                     struct dlk_map_node *node, const char *key);
void dlk_map_remove(struct dlk_map *m, struct dlk_map_node *node);

#endif
