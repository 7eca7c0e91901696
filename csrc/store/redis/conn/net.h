/* The link over sockets. */
#ifndef DLK_STORE_REDIS_CONN_NET_H
#define DLK_STORE_REDIS_CONN_NET_H

#include "net/endpoint.h"
#include "net/wake.h"
#include "store/redis/conn/link.h"
#include "store/store.h"

struct dlk_redis_settings {
  unsigned db;
  unsigned replicas; /* 0: WAIT is never sent */
  bool all;          /* at least so many, and all that exist */
  int64_t wait_timeout;
  /* For a node of a cluster; the owner flushes it. */
  bool cluster;
  struct dlk_net_wake *wake; /* NULL: its own */
  int wake_at;               /* its first place there */
  int64_t max_ttl; /* of a Redlock, if the server is one of its nodes */
};

/* The caller keeps endpoint and channel alive. NULL: out of memory. */
struct dlk_redis_link *
dlk_redis_net_new(struct dlk_host *host, const struct dlk_conf *conf,
                  struct dlk_net_endpoint *endpoint,
                  const struct dlk_redis_settings *settings,
                  const char *channel,
                  const struct dlk_redis_link_events *events, void *arg);
/* A connection for commands is usable. */
bool dlk_redis_net_stands(const struct dlk_redis_link *link);
/* Of its scripts; it stood once. */
enum dlk_redis_form dlk_redis_net_form(const struct dlk_redis_link *link);
/* Ends the messages of one slot. */
void dlk_redis_net_quit(struct dlk_redis_link *link, int slot);
/* Its requests that are to be written. */
struct dlk_list *dlk_redis_net_waiting(struct dlk_redis_link *link);

#endif
