/* A connection's life: the states that it goes through, from the search for an
 * address to the end, and who is told of each end. What is read and written
 * while it stands is conn.c's affair, which calls this and is not called: the
 * socket reports to `sock_events` of the connection. */
#ifndef DLK_STORE_REDIS_CONN_LIFETIME_H
#define DLK_STORE_REDIS_CONN_LIFETIME_H

#include "core/timer.h"
#include "net/due.h"
#include "net/endpoint.h"
#include "net/sock.h"
#include "store/redis/conn/durable.h"
#include "store/redis/conn/pipe.h"
#include "store/store.h"

struct dlk_redis_conn;

struct dlk_redis_conn_events {
  /* A fresh connection: returns the handshake request. Its `done` must call
   * ready, refuse or say (conn.h) when it was ANSWERED. */
  struct dlk_redis_req *(*handshake)(struct dlk_redis_conn *c);
  /* The connection, ready before, is gone; asked: requests were under way. */
  void (*broken)(struct dlk_redis_conn *c, bool asked,
                 const struct dlk_error *why);
  /* An attempt to connect failed; what waited was told UNSENT. */
  void (*failed)(struct dlk_redis_conn *c, const struct dlk_error *why);
  /* A reply that nobody asked for; NULL: that is an error. */
  void (*push)(struct dlk_redis_conn *c, const struct redisReply *reply);
  /* Whether somebody holds or waits, so that it must not end unnoticed; NULL
   * without push: that is no matter. */
  bool (*needed)(struct dlk_redis_conn *c);
  void (*gone)(void *arg); /* see sock.h; arg is the conn's `arg` */
};

struct dlk_redis_conn {
  /* Set by the owner before the first use: */
  struct dlk_host *host;
  const struct dlk_conf *conf;
  struct dlk_net_endpoint *endpoint;
  const struct dlk_redis_conn_events *events;
  void *arg;
  unsigned *alive;
  int64_t pause; /* between two attempts at most; 0: a second */
  bool wanted;   /* reconnect even when no request waits; never idle */
  /* The connection's own: */
  enum dlk_net_conn_state state;
  struct dlk_net_seeker seeker;     /* from SEEKING until it is OFF again */
  const struct dlk_net_address *at; /* where it connected last */
  const struct dlk_net_sock_events *sock_events; /* conn.c's */
  struct dlk_net_sock *sock;
  struct dlk_net_silent silent;
  struct dlk_timer timer;
  struct dlk_redis_pipe pipe;
  struct dlk_redis_durable durable;
  bool blocked; /* the socket takes no more for now */
  int64_t state_since, armed;
  struct dlk_net_times times;
  unsigned failures;
  struct dlk_error why;
};

/* ---- for its owner ---- */

/* Connects now if it should; otherwise when a request comes. */
void dlk_redis_conn_wake(struct dlk_redis_conn *c);
/* The verdict, from the handshake's `done`. */
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

/* ---- for conn.c ---- */

static inline int64_t dlk_redis_life_now(const struct dlk_redis_conn *c) {
  return c->host->now(c->host);
}

/* The one timer: an attempt's end, the pause's end, the oldest request's
 * time-out, or the time to close for idleness. Never moved to later. */
static inline void dlk_redis_life_arm(struct dlk_redis_conn *c, int64_t at) {
  if (c->timer.node.queued && c->armed <= at)
    return;
  c->armed = at;
  c->host->timer_set(c->host, &c->timer, at);
}

void dlk_redis_life_enter(struct dlk_redis_conn *c,
                          enum dlk_net_conn_state state);
/* The endpoint's answer: an address, or none. */
void dlk_redis_life_located(struct dlk_net_seeker *who,
                            const struct dlk_net_address *address,
                            const struct dlk_error *why);
/* The socket could not be opened: one of its events. */
void dlk_redis_life_failed(void *arg, enum dlk_code code, const char *text);

/* Where it goes, for messages. */
struct dlk_net_server_text dlk_redis_life_name(const struct dlk_redis_conn *c);
/* It is of no use any more, for that reason; a text says it in the user's
 * words, behind the server's name. */
void dlk_redis_life_discard(struct dlk_redis_conn *c, enum dlk_code code,
                            const char *text);
/* The same, by what the server does; a server that turned us away in its own
 * words is believed. */
void dlk_redis_life_lost(struct dlk_redis_conn *c, const char *text);
/* The same, by what a read gave. */
void dlk_redis_life_lost_reading(struct dlk_redis_conn *c, ssize_t n,
                                 int error);
/* DRAINING, and some replies came. */
void dlk_redis_life_answered(struct dlk_redis_conn *c);

/* Called after each batch of replies, when nobody depends on the state. */
static inline void dlk_redis_life_drained(struct dlk_redis_conn *c) {
  if (c->state == DLK_NET_DRAINING)
    dlk_redis_life_answered(c);
}

#endif
