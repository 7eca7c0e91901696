/* The first commands on a fresh connection, in one write, and the meaning of
 * their answers. */
#ifndef DLK_STORE_REDIS_CONN_HANDSHAKE_H
#define DLK_STORE_REDIS_CONN_HANDSHAKE_H

#include "store/redis/conn/auth.h"
#include "store/redis/conn/conn.h"

#define DLK_REDIS_RUN_ID 41
#define DLK_REDIS_KILLS 8

struct dlk_redis_handshake {
  struct dlk_redis_req req;    /* encode and each are ours, done the owner's */
  struct dlk_redis_link *link; /* gets may_linger */
  const struct dlk_conf *conf;
  const char *channel;
  unsigned db;
  unsigned replicas;        /* that are wanted, or more if: */
  bool all;                 /* as many as there are */
  bool subscriber, changes; /* changes: as of the endpoint */
  /* Found out: */
  struct dlk_net_server_text name; /* whom it is said to, with TLS or not: */
  bool tls;
  uint8_t steps[16];
  struct dlk_redis_auth auth;
  struct dlk_error err; /* code DLK_OK: all is well */
  bool stranger;        /* err: not who we say, or not said who */
  int64_t id;           /* the connection's, or -1 */
  /* Replicas that follow, and that are connected; -1: it is not told. */
  int64_t have, listed;
  char run_id[DLK_REDIS_RUN_ID];
  char policy[32]; /* maxmemory-policy, "" if it may not be read */
};

/* Readies g->req for a new connection, which is c's. */
void dlk_redis_handshake_start(struct dlk_redis_handshake *g,
                               const struct dlk_redis_conn *c);

#endif
