/* Whether messages matter to somebody, and for how long the subscription stays
 * when they do not. */
#ifndef DLK_STORE_REDIS_OP_SUBSCRIPTION_H
#define DLK_STORE_REDIS_OP_SUBSCRIPTION_H

#include "store/redis/op/store.h"

void dlk_redis_subscription_init(struct dlk_redis *s);
/* Somebody holds or waits. */
bool dlk_redis_subscription_needed(const struct dlk_redis *s);
/* Somebody may have been the last one who needed it. */
void dlk_redis_subscription_rest(struct dlk_redis *s);

#endif
