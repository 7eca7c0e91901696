/* The primary that Sentinels name, as an endpoint. */
#ifndef DLK_STORE_REDIS_CONN_SENTINEL_H
#define DLK_STORE_REDIS_CONN_SENTINEL_H

#include "net/endpoint.h"
#include "store/store.h"

struct dlk_redis_primary {
  struct dlk_net_endpoint endpoint; /* `changes` */
  /* Those that the Sentinels know, away or not; -1: they refuse. */
  int64_t replicas;
};

/* conf: hosts are the Sentinels, path is "/name" or "/name/db"; it must live as
 * long. tls: for the Sentinels and the primary, or NULL. Returns NULL without
 * memory. */
struct dlk_net_endpoint *dlk_redis_sentinel_new(struct dlk_host *host,
                                                const struct dlk_conf *conf,
                                                struct dlk_net_tls *tls);

#endif
