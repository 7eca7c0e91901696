/* Which locks are held or waited for. */
#ifndef DLK_STORE_REDIS_RECIPE_LIST_H
#define DLK_STORE_REDIS_RECIPE_LIST_H

#include "store/redis/op/try.h"

void dlk_redis_list(struct dlk_redis_try *t);

#endif
