/* The first commands on a fresh connection, in one write. */
#ifndef DLK_STORE_REDIS_CONN_HANDSHAKE_H
#define DLK_STORE_REDIS_CONN_HANDSHAKE_H

#include "store/redis/conn/auth.h"
#include "store/redis/conn/conn.h"

#define DLK_REDIS_RUN_ID 41
#define DLK_REDIS_KILLS 8

struct dlk_redis_handshake {
  struct dlk_redis_req req;    /* the owner sets `done` */
  struct dlk_redis_link *link; /* gets may_linger */
  const struct dlk_conf *conf;
  const char *channel;
  unsigned db;
  unsigned replicas;        /* wanted */
  bool all;                 /* and as many as exist */
  bool subscriber, changes; /* changes: as in the endpoint */
  bool cluster;             /* a node of one is wanted, a replica too */
  bool votes;               /* it is a Redlock's node */
  /* The answers: */
  struct dlk_net_server_text name; /* the server's, for messages */
  bool tls;
  uint8_t steps[16];
  struct dlk_redis_auth auth;
  struct dlk_error err; /* DLK_OK: none */
  bool stranger;        /* err: the password was refused */
  int64_t id;           /* or -1 */
  int major;            /* of its version; 0: unknown */
  /* that follow; that are connected; -1: unknown */
  int64_t have, listed;
  char run_id[DLK_REDIS_RUN_ID];
  int64_t uptime;  /* in seconds */
  bool keeps;      /* appendonly, and appendfsync always */
  char policy[32]; /* maxmemory-policy, or "" */
};

void dlk_redis_handshake_start(struct dlk_redis_handshake *g,
                               const struct dlk_redis_conn *c);

#endif
