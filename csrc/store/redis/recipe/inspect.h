/* What stands on the server of a lock. */
#ifndef DLK_STORE_REDIS_RECIPE_INSPECT_H
#define DLK_STORE_REDIS_RECIPE_INSPECT_H

#include "store/redis/op/try.h"

/* How inspect and leader name a hold whose fence is not certain, in place of a
 * fence: from -2 downwards, by so many digits that its token begins with. That
 * fits into a number of Lua. */
#define DLK_REDIS_ID 12
#define DLK_REDIS_ID_FIRST INT64_C(-2)

void dlk_redis_inspect(struct dlk_redis_try *t);

#endif
