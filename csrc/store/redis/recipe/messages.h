/* What the link tells: see messages.c. */
#ifndef DLK_STORE_REDIS_RECIPE_MESSAGES_H
#define DLK_STORE_REDIS_RECIPE_MESSAGES_H

#include "store/redis/conn/link.h"

extern const struct dlk_redis_link_events dlk_redis_messages;

#endif
