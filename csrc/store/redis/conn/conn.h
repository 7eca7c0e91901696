/* A connection (net/conn.h) that speaks RESP: requests go out in order, and
 * replies come in order. The owner says what goes first on a fresh connection
 * (the handshake), and takes the replies that no request asked for. */
#ifndef DLK_STORE_REDIS_CONN_CONN_H
#define DLK_STORE_REDIS_CONN_CONN_H

#include "net/conn.h"
#include "store/redis/conn/durable.h"
#include "store/redis/conn/pipe.h"

struct dlk_redis_conn;

struct dlk_redis_conn_events {
  /* A fresh connection: returns the handshake request. Its `done` must call
   * dlk_net_conn_ready, dlk_net_conn_refuse or dlk_redis_conn_say when it was
   * ANSWERED. */
  struct dlk_redis_req *(*handshake)(struct dlk_redis_conn *c);
  /* The connection, ready before, is gone; asked: requests were under way. May
   * be NULL, as all below but gone. */
  void (*broken)(struct dlk_redis_conn *c, bool asked,
                 const struct dlk_error *why);
  /* An attempt to connect failed; what waited was told UNSENT. */
  void (*failed)(struct dlk_redis_conn *c, const struct dlk_error *why);
  /* A reply without a request; NULL: that is an error. */
  void (*push)(struct dlk_redis_conn *c, const struct redisReply *reply);
  /* Whether a hold or a wait is there: it must not end unnoticed. */
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

/* The owner also sets net.alive, and what else net/conn.h leaves to it. */
void dlk_redis_conn_init(struct dlk_redis_conn *c, struct dlk_host *host,
                         const struct dlk_conf *conf,
                         struct dlk_net_endpoint *endpoint,
                         const struct dlk_redis_conn_events *events, void *arg);
void dlk_redis_conn_submit(struct dlk_redis_conn *c, struct dlk_redis_req *r);
/* Writes what waits. Called before the loop sleeps and after it woke. */
void dlk_redis_conn_flush(struct dlk_redis_conn *c);
/* Blocks for DLK_AWAIT_MAX at most in reading the one answer that is to come;
 * false: nothing came, or there is not just one. */
bool dlk_redis_conn_await(struct dlk_redis_conn *c);
/* From the handshake's `done`: another question before it is ready. */
void dlk_redis_conn_say(struct dlk_redis_conn *c, struct dlk_redis_req *r);

#endif
