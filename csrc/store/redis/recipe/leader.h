/* Waiting for another holder. */
#ifndef DLK_STORE_REDIS_RECIPE_LEADER_H
#define DLK_STORE_REDIS_RECIPE_LEADER_H

#include "store/redis/op/try.h"
#include "store/redis/recipe/vote.h"

void dlk_redis_change(struct dlk_redis_try *t);
/* The holder of this lock is another one; */
void dlk_redis_changed(struct dlk_redis *s, const char *lock, size_t len);
/* or that of any in this slot, perhaps: messages may have been missed. */
void dlk_redis_change_subscribed(struct dlk_redis *s, int slot);

#endif
