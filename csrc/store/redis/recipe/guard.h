/* Guarded writes. */
#ifndef DLK_STORE_REDIS_RECIPE_GUARD_H
#define DLK_STORE_REDIS_RECIPE_GUARD_H

#include "store/redis/op/try.h"

void dlk_redis_guard(struct dlk_redis_try *t);

#endif
