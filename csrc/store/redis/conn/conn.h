/* A connection (net/conn.h) that speaks RESP: requests go out and replies come
 * in order. */
#ifndef DLK_STORE_REDIS_CONN_CONN_H
#define DLK_STORE_REDIS_CONN_CONN_H

#include "net/conn.h"
#include "store/redis/conn/durable.h"
#include "store/redis/conn/pipe.h"

struct dlk_redis_conn;

struct dlk_redis_conn_events {
  /* Returns the handshake. When ANSWERED, its `done` must call
   * dlk_net_conn_ready, dlk_net_conn_refuse or dlk_redis_conn_say. */
  struct dlk_redis_req *(*handshake)(struct dlk_redis_conn *c);
  /* A ready connection ended; asked: requests were under way. All but
   * `handshake` and `gone` may be NULL. */
  void (*broken)(struct dlk_redis_conn *c, bool asked,
                 const struct dlk_error *why);
  /* An attempt to connect failed; waiting requests ended as UNSENT. */
  void (*failed)(struct dlk_redis_conn *c, const struct dlk_error *why);
  /* Takes a reply without a request; NULL: that is an error. */
  void (*push)(struct dlk_redis_conn *c, const struct redisReply *reply);
  /* True: a hold or a wait exists. NULL: net.wanted. */
  bool (*needed)(struct dlk_redis_conn *c);
  void (*gone)(void *arg); /* see sock.h; arg is the connection */
};

struct dlk_redis_conn {
  struct dlk_net_conn net; /* first */
  const struct dlk_redis_conn_events *events;
  void *arg; /* the owner's */
  struct dlk_redis_pipe pipe;
  struct dlk_redis_durable durable;
};

/* The owner also sets net.alive and what net/conn.h leaves to it. */
void dlk_redis_conn_init(struct dlk_redis_conn *c, struct dlk_host *host,
                         const struct dlk_conf *conf,
                         struct dlk_net_endpoint *endpoint,
                         const struct dlk_redis_conn_events *events, void *arg);
/* Connects, and writes what was submitted to the pipe: an attempt that fails at
 * once would end a request inside its submit. */
void dlk_redis_conn_flush(struct dlk_redis_conn *c);
/* As dlk_redis_link.await. */
bool dlk_redis_conn_await(struct dlk_redis_conn *c);
/* Sends another request from the handshake's `done`. */
void dlk_redis_conn_say(struct dlk_redis_conn *c, struct dlk_redis_req *r);

#endif
