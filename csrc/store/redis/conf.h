/* What a URL of Redis and its options may say: see conf.c. */
#ifndef DLK_STORE_REDIS_CONF_H
#define DLK_STORE_REDIS_CONF_H

#include "store/store.h"

/* Sentinels say where the primary is. */
bool dlk_redis_conf_by_sentinel(const struct dlk_conf *conf);
/* Whether it can be opened; *db: the number of the database. */
enum dlk_code dlk_redis_conf_check(const struct dlk_conf *conf, unsigned *db,
                                   struct dlk_error *err);

#endif
