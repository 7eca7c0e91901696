/* Keys with a time, in a table of fixed size: a missing one costs a request. */
#ifndef DLK_STORE_REDIS_OP_LATELY_H
#define DLK_STORE_REDIS_OP_LATELY_H

#include <stddef.h>
#include <stdint.h>

#define DLK_REDIS_LATELY 1024

struct dlk_redis_lately {
  uint64_t seed;
  struct {
    uint64_t hash;
    int64_t until;
  } at[DLK_REDIS_LATELY];
};

/* Until when the key is marked; -1: it is not. */
int64_t dlk_redis_lately(const struct dlk_redis_lately *t, const char *key,
                         size_t len);
void dlk_redis_lately_mark(struct dlk_redis_lately *t, const char *key,
                           size_t len, int64_t until);
void dlk_redis_lately_clear(struct dlk_redis_lately *t);

#endif
