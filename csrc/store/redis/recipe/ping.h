/* Requests that read one thing: ping and locked. */
#ifndef DLK_STORE_REDIS_RECIPE_PING_H
#define DLK_STORE_REDIS_RECIPE_PING_H

#include "store/redis/op/try.h"

void dlk_redis_ping(struct dlk_redis_try *t);
void dlk_redis_locked(struct dlk_redis_try *t);

#endif
