/* What a URL of Redis and its options may say: see conf.c. */
#ifndef DLK_STORE_REDIS_CONF_H
#define DLK_STORE_REDIS_CONF_H

#include "store/redis/conn/net.h"
#include "store/store.h"

/* The default of max_ttl. */
#define DLK_REDIS_MAX_TTL (60 * DLK_SEC)

/* Sentinels say where the primary is. */
bool dlk_redis_conf_by_sentinel(const struct dlk_conf *conf);
/* They are nodes of a cluster. */
bool dlk_redis_conf_by_cluster(const struct dlk_conf *conf);
bool dlk_redis_conf_by_tls(const struct dlk_conf *conf);
/* Whether it can be opened; *out: what the link is told then. The defaults are
 * lua/dlock/options.lua's. */
enum dlk_code dlk_redis_conf_read(const struct dlk_conf *conf,
                                  struct dlk_redis_settings *out,
                                  struct dlk_error *err);

#endif
