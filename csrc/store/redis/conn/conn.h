/* One connection that comes back: requests out in order, replies in order,
 * time-outs, reconnecting while something waits. What is said first on a
 * fresh connection (the handshake) and what becomes of replies that nobody
 * asked for is the owner's affair. */
#ifndef DLK_STORE_REDIS_CONN_H
#define DLK_STORE_REDIS_CONN_H

#include "core/timer.h"
#include "store/redis/conn/due.h"
#include "store/redis/conn/durable.h"
#include "store/redis/conn/endpoint.h"
#include "store/redis/conn/pipe.h"
#include "store/redis/conn/sock.h"
#include "store/store.h"

struct dlk_redis_conn;

struct dlk_redis_conn_events {
  /* A fresh connection: returns the handshake request. Its `done` must call
   * ready, refuse or say (below) when it was ANSWERED. */
  struct dlk_redis_req *(*handshake)(struct dlk_redis_conn *c);
  /* The connection, ready before, is gone; asked: requests were under way. */
  void (*broken)(struct dlk_redis_conn *c, bool asked,
                 const struct dlk_error *why);
  /* An attempt to connect failed; what waited was told UNSENT. */
  void (*failed)(struct dlk_redis_conn *c, const struct dlk_error *why);
  /* A reply that nobody asked for; NULL: that is an error. */
  void (*push)(struct dlk_redis_conn *c, const struct redisReply *reply);
  /* With push: whether what it hears matters now. */
  bool (*needed)(struct dlk_redis_conn *c);
  void (*gone)(void *arg); /* see sock.h; arg is the conn's `arg` */
};

struct dlk_redis_conn {
  /* Set by the owner before the first use: */
  struct dlk_host *host;
  const struct dlk_conf *conf;
  struct dlk_redis_endpoint *endpoint;
  const struct dlk_redis_conn_events *events;
  void *arg;
  unsigned *alive;
  int64_t pause; /* between two attempts at most; 0: a second */
  bool wanted;   /* reconnect even when no request waits; never idle */
  /* The connection's own: */
  enum dlk_redis_conn_state state;
  struct dlk_redis_seeker seeker;     /* from SEEKING until it is OFF again */
  const struct dlk_redis_address *at; /* where it connected last */
  struct dlk_redis_sock *sock;
  struct dlk_timer timer;
  struct dlk_redis_pipe pipe;
  struct dlk_redis_durable durable;
  bool spoken_to; /* it was ready once */
  bool blocked;   /* the socket takes no more for now */
  int64_t state_since, armed;
  struct dlk_redis_times times;
  unsigned failures;
  struct dlk_error why;
};

void dlk_redis_conn_init(struct dlk_redis_conn *c);
void dlk_redis_conn_free(struct dlk_redis_conn *c);
/* Connects now if it should; otherwise when a request comes. */
void dlk_redis_conn_wake(struct dlk_redis_conn *c);
void dlk_redis_conn_submit(struct dlk_redis_conn *c, struct dlk_redis_req *r);
bool dlk_redis_conn_withdraw(struct dlk_redis_conn *c, struct dlk_redis_req *r);
/* Writes what waits. Called before the loop sleeps and after it woke. */
void dlk_redis_conn_flush(struct dlk_redis_conn *c);
/* Blocks for DLK_AWAIT_MAX at most in reading the one answer that is to come;
 * false: nothing came, or there is not just one. */
bool dlk_redis_conn_await(struct dlk_redis_conn *c);
/* From the handshake's `done`: another question before it is ready, */
void dlk_redis_conn_say(struct dlk_redis_conn *c, struct dlk_redis_req *r);
/* or the verdict. */
void dlk_redis_conn_ready(struct dlk_redis_conn *c);
void dlk_redis_conn_refuse(struct dlk_redis_conn *c,
                           const struct dlk_error *why);
/* No more writes; when what is under way is answered, pause and reconnect. */
void dlk_redis_conn_retreat(struct dlk_redis_conn *c,
                            const struct dlk_error *why);
/* Ends the connection for good; requests end as UNSENT or UNKNOWN. */
void dlk_redis_conn_stop(struct dlk_redis_conn *c);
/* Ends it for now, without anybody being told. Only when nothing waits. */
void dlk_redis_conn_off(struct dlk_redis_conn *c);

#endif
