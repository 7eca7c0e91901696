/* Releasing a lease. */
#ifndef DLK_STORE_REDIS_RECIPE_RELEASE_H
#define DLK_STORE_REDIS_RECIPE_RELEASE_H

#include "store/redis/op/try.h"

void dlk_redis_release(struct dlk_redis_try *t);

#endif
