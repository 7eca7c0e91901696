/* The primary that Sentinels name, as an endpoint. */
#ifndef DLK_STORE_REDIS_CONN_SENTINEL_H
#define DLK_STORE_REDIS_CONN_SENTINEL_H

#include "net/endpoint.h"
#include "store/store.h"

/* The endpoint as it is handed out. */
struct dlk_redis_primary {
  struct dlk_net_endpoint endpoint; /* `changes` */
  /* How many replicas the Sentinels know of, those too that are away; -1: they
   * do not say. */
  int64_t replicas;
};

/* conf: its hosts are the Sentinels, its path is "/name" and perhaps more; its
 * options sentinel_username, sentinel_password and address_map are heeded. It
 * must live as long. tls: how it and they are spoken to, or NULL. NULL: out of
 * memory. */
struct dlk_net_endpoint *dlk_redis_sentinel_new(struct dlk_host *host,
                                                const struct dlk_conf *conf,
                                                struct dlk_net_tls *tls);

#endif
