/* The key names of a lock's parts. The lock's key is the user's name as it is
 * (prefix..key), so that other clients compete for it. Each other part is
 * `~dlock:{T}:x:` and that name. The tag T has the lock's hash slot, so one
 * script may touch all parts in Redis Cluster. */
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
  DLK_REDIS_WATCHERS = 'n',
  DLK_REDIS_VOTES = 'v'
};

/* The caller owns both strings. */
struct dlk_redis_name {
  const char *prefix, *key;
  size_t prefix_len, key_len;
  char tag[DLK_REDIS_TAG];
};

/* A release follows its acquire, so the last key's slot and the last slot's tag
 * are remembered. */
struct dlk_redis_names {
  const char *prefix;
  size_t prefix_len, last_len;
  int last_slot, tagged; /* of last_key; of last_tag */
  char last_key[DLK_REDIS_NAME_KEY], last_tag[DLK_REDIS_TAG];
};

/* A set of slots. */
struct dlk_redis_slots {
  uint8_t bits[DLK_REDIS_SLOTS / 8];
};

static inline bool dlk_redis_slots_has(const struct dlk_redis_slots *s,
                                       int slot) {
  return s->bits[slot / 8] >> slot % 8 & 1;
}

static inline void dlk_redis_slots_put(struct dlk_redis_slots *s, int slot,
                                       bool in) {
  unsigned bit = 1u << slot % 8, others = s->bits[slot / 8] & ~bit;
  s->bits[slot / 8] = (uint8_t)(others | (in ? bit : 0));
}

/* Follows Redis Cluster's rule for hash tags. */
unsigned dlk_redis_slot(const char *key, size_t len);

#define DLK_REDIS_CHANNEL 48
/* A client's channel for one slot's messages, `~dlock:{T}:c:` and its name, of
 * `~dlock:c:` and its name. */
void dlk_redis_channel(char out[DLK_REDIS_CHANNEL], const char *channel,
                       unsigned slot);

/* False: the name begins with DLK_REDIS_RESERVED. */
bool dlk_redis_name_make(struct dlk_redis_name *name, const char *prefix,
                         const char *key, size_t key_len);

/* The caller keeps prefix alive. */
void dlk_redis_names_init(struct dlk_redis_names *n, const char *prefix);
/* -1: the name is reserved. */
int dlk_redis_names_slot(struct dlk_redis_names *n, const char *key,
                         size_t len);
/* As dlk_redis_name_make; `slot` is the key's. */
void dlk_redis_names_of(struct dlk_redis_names *n, struct dlk_redis_name *name,
                        const char *key, size_t len, int slot);

size_t dlk_redis_name_len(const struct dlk_redis_name *name,
                          enum dlk_redis_part part);
void dlk_redis_name_write(const struct dlk_redis_name *name,
                          enum dlk_redis_part part, char *out);

#endif
