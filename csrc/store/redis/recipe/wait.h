/* Waiting in the queue of a lock. */
#ifndef DLK_STORE_REDIS_RECIPE_WAIT_H
#define DLK_STORE_REDIS_RECIPE_WAIT_H

#include "store/redis/op/try.h"

void dlk_redis_queue(struct dlk_redis_try *t);
void dlk_redis_queue_refresh(struct dlk_redis_try *t);
/* A message said that the lock was handed to its token, with this fence. */
void dlk_redis_queue_handed(struct dlk_redis_try *t, int64_t fence);
/* The subscription could not be had. */
void dlk_redis_queue_unsubscribed(struct dlk_redis_try *t,
                                  const struct dlk_error *why);

#endif
