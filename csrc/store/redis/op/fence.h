/* Which counters are known to be the newest on the present connection. */
#ifndef DLK_STORE_REDIS_OP_FENCE_H
#define DLK_STORE_REDIS_OP_FENCE_H

#include "store/redis/conn/link.h"
#include "store/redis/op/lately.h"

/* A lower count is no fence of ours (include/range.lua). */
#define DLK_REDIS_FENCE_FIRST INT64_C(1000000000000)

struct dlk_redis_fences {
  const struct dlk_redis_link *link;
  int64_t memory; /* conf's: how long a counter outlives its last use */
  /* Counters that were lifted on that connection, and until when they stay. */
  struct dlk_redis_lately lifted;
  uint64_t connection;
};

/* For how long a script keeps the counter, of a lease that holds for so long.
 */
int64_t dlk_redis_fence_memory(const struct dlk_redis_fences *f, int64_t holds);
/* Whether the counter was lifted on this connection, */
bool dlk_redis_fence_is_lifted(struct dlk_redis_fences *f, const char *key,
                               size_t len);
/* and stays for long enough, so that counting it up will do. */
bool dlk_redis_fence_is_plain(struct dlk_redis_fences *f, const char *key,
                              size_t len, int64_t holds, int64_t now);
/* The answer says that it is, */
void dlk_redis_fence_lifted(struct dlk_redis_fences *f, const char *key,
                            size_t len);
/* and that its time was set by a request of that moment. */
void dlk_redis_fence_stays(struct dlk_redis_fences *f, const char *key,
                           size_t len, int64_t holds, int64_t sent);
/* It was found to be missing, or to be none of ours. */
void dlk_redis_fence_missing(struct dlk_redis_fences *f, const char *key,
                             size_t len);

#endif
