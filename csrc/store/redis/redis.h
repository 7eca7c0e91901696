/* The Redis store: one Redis (6.2 or newer) or Valkey server, or the primary
 * that Sentinels name. */
#ifndef DLK_STORE_REDIS_REDIS_H
#define DLK_STORE_REDIS_REDIS_H

#include "store/store.h"

extern const struct dlk_store_type dlk_redis_store;

#endif
