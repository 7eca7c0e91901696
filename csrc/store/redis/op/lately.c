/* Keys by a hash with a secret seed: no two are taken for one. A newer one
 * takes the place. */
#include "store/redis/op/lately.h"

#include <string.h>

static uint64_t hash_of(const struct dlk_redis_lately *t, const char *key,
                        size_t len) {
  uint64_t h = t->seed;
  for (size_t i = 0; i < len; i++)
    h = (h ^ (unsigned char)key[i]) * UINT64_C(1099511628211);
  h ^= h >> 32;
  return h | 1; /* 0 is nobody's */
}

static size_t place_of(uint64_t hash) {
  return hash / 2 % DLK_REDIS_LATELY;
}

int64_t dlk_redis_lately(const struct dlk_redis_lately *t, const char *key,
                         size_t len) {
  uint64_t h = hash_of(t, key, len);
  size_t i = place_of(h);
  return t->at[i].hash == h ? t->at[i].until : -1;
}

void dlk_redis_lately_mark(struct dlk_redis_lately *t, const char *key,
                           size_t len, int64_t until) {
  uint64_t h = hash_of(t, key, len);
  size_t i = place_of(h);
  t->at[i].hash = h;
  t->at[i].until = until;
}

void dlk_redis_lately_clear(struct dlk_redis_lately *t) {
  memset(t->at, 0, sizeof t->at);
}
