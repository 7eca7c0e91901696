/* Intrusive hash map with byte-string keys. It allocates only its buckets; when
 * these cannot grow, chains get longer and nothing fails. A key belongs to the
 * owner of its node, and lives while the node is in the map. */
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
/* Leaves the nodes to the caller. */
void dlk_map_clear(struct dlk_map *m);
/* False: out of memory for the first buckets. The caller puts no key twice. */
bool dlk_map_put(struct dlk_map *m, struct dlk_map_node *node, const char *key,
                 size_t len);
struct dlk_map_node *dlk_map_get(const struct dlk_map *m, const char *key,
                                 size_t len);
/* Puts `node`, with the same key bytes, in the place of `old`. */
void dlk_map_replace(struct dlk_map *m, struct dlk_map_node *old,
                     struct dlk_map_node *node, const char *key);
void dlk_map_remove(struct dlk_map *m, struct dlk_map_node *node);
/* Each once; fn may take out its own node. */
void dlk_map_each(struct dlk_map *m,
                  void (*fn)(struct dlk_map_node *node, void *arg), void *arg);

#endif
