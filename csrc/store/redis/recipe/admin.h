/* Administration. */
#ifndef DLK_STORE_REDIS_RECIPE_ADMIN_H
#define DLK_STORE_REDIS_RECIPE_ADMIN_H

#include "store/redis/op/try.h"

void dlk_redis_break(struct dlk_redis_try *t);
void dlk_redis_revoke(struct dlk_redis_try *t);
void dlk_redis_downgrade(struct dlk_redis_try *t);
void dlk_redis_publish(struct dlk_redis_try *t);

#endif
