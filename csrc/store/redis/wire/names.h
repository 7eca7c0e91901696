/* What the parts of a lock are called on the server.
 *
 * The lock itself is the user's name as it is (prefix and key), so that other
 * clients meet us there. Everything beside it is `~dlock:{T}:x:` and that
 * name, where T is a tag whose hash slot is the slot of the lock's own name:
 * one script may then touch all of them, in Redis Cluster too. */
#ifndef DLK_STORE_REDIS_WIRE_NAMES_H
#define DLK_STORE_REDIS_WIRE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DLK_REDIS_RESERVED "~dlock:"
#define DLK_REDIS_TAG 6
#define DLK_REDIS_SLOTS 16384u
#define DLK_REDIS_NAME_KEY 512 /* longer keys are not remembered */

enum dlk_redis_part {
  DLK_REDIS_LOCK = 0,
  DLK_REDIS_FENCE = 'f',
  DLK_REDIS_QUEUE = 'q',
  DLK_REDIS_WAITERS = 'w',
  DLK_REDIS_HOLDERS = 'h',
  DLK_REDIS_PERMITS = 'p',
  DLK_REDIS_INFO = 'i',
  DLK_REDIS_WATCHERS = 'n'
};

/* A lock's name in its two pieces, which belong to somebody else. */
struct dlk_redis_name {
  const char *prefix, *key;
  size_t prefix_len, key_len;
  char tag[DLK_REDIS_TAG];
};

/* Makes the names of one store, and remembers the slot of the last key and the
 * tag of the last slot: a release follows its acquire. */
struct dlk_redis_names {
  const char *prefix;
  size_t prefix_len, last_len;
  int last_slot, tagged; /* of last_key; of last_tag */
  char last_key[DLK_REDIS_NAME_KEY], last_tag[DLK_REDIS_TAG];
};

/* The hash slot of a whole key, by Redis Cluster's rule for hash tags. */
unsigned dlk_redis_slot(const char *key, size_t len);

/* False: the name begins as our own names do, and cannot be used. */
bool dlk_redis_name_make(struct dlk_redis_name *name, const char *prefix,
                         const char *key, size_t key_len);

/* prefix stays the caller's. */
void dlk_redis_names_init(struct dlk_redis_names *n, const char *prefix);
/* The hash slot of the lock's name; -1: it begins as our own names do, and
 * cannot be used. */
int dlk_redis_names_slot(struct dlk_redis_names *n, const char *key,
                         size_t len);
/* As dlk_redis_name_make, with the store's prefix; slot: of that key. */
void dlk_redis_names_of(struct dlk_redis_names *n, struct dlk_redis_name *name,
                        const char *key, size_t len, int slot);

/* The length of a part's name, and the name itself (that many bytes). */
size_t dlk_redis_name_len(const struct dlk_redis_name *name,
                          enum dlk_redis_part part);
void dlk_redis_name_write(const struct dlk_redis_name *name,
                          enum dlk_redis_part part, char *out);

#endif
