/* A link to all primaries of a Redis Cluster. */
#ifndef DLK_STORE_REDIS_CONN_CLUSTER_H
#define DLK_STORE_REDIS_CONN_CLUSTER_H

#include "store/redis/conn/net.h"

/* conf: its hosts are nodes to begin with. The caller keeps it, tls (or NULL)
 * and channel alive. NULL: out of memory. */
struct dlk_redis_link *dlk_redis_cluster_new(
    struct dlk_host *host, const struct dlk_conf *conf, struct dlk_net_tls *tls,
    const struct dlk_redis_settings *settings, const char *channel,
    const struct dlk_redis_link_events *events, void *arg);

#endif
