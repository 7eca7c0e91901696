/* Acquiring: the uncontended attempt, then wait.c. */
#ifndef DLK_STORE_REDIS_RECIPE_ACQUIRE_H
#define DLK_STORE_REDIS_RECIPE_ACQUIRE_H

#include "store/redis/op/try.h"

void dlk_redis_acquire(struct dlk_redis_try *t);

#endif
