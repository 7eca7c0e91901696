/* The link over sockets: a command connection, and one for messages that is
 * opened when it is first wanted. */
#ifndef DLK_STORE_REDIS_CONN_NET_H
#define DLK_STORE_REDIS_CONN_NET_H

#include "net/endpoint.h"
#include "store/redis/conn/link.h"
#include "store/store.h"

/* Options of the server beside its address. */
struct dlk_redis_settings {
  unsigned db;
  unsigned replicas; /* that must have what is durable; 0: WAIT is never sent */
  bool all;          /* at least so many, and all that there are */
  int64_t wait_timeout; /* for them */
};

/* Both connections ask the endpoint. It and channel stay the caller's
 * and must live as long as the link. NULL: out of memory. */
struct dlk_redis_link *
dlk_redis_net_new(struct dlk_host *host, const struct dlk_conf *conf,
                  struct dlk_net_endpoint *endpoint,
                  const struct dlk_redis_settings *settings,
                  const char *channel,
                  const struct dlk_redis_link_events *events, void *arg);

#endif
