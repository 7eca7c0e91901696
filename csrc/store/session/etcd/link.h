/* A session: a lease, and the connection to a member that carries it. */
#ifndef DLK_STORE_SESSION_ETCD_LINK_H
#define DLK_STORE_SESSION_ETCD_LINK_H

#include "core/map.h"
#include "net/tls.h"
#include "store/session/asks/asks.h"
#include "store/session/etcd/conn/grpc.h"
#include "store/session/etcd/names.h"

/* Shared by a store's sessions. */
struct dlk_etcd_client {
  struct dlk_conf conf;
  struct dlk_net_tls *tls;         /* or NULL */
  struct dlk_net_address *members; /* conf.host_count of them */
  char *base;                      /* the folder of all locks */
  char *texts[DLK_SS_TEXTS];       /* servers' words, kept for replies */
  struct dlk_list links;           /* open */
};

struct dlk_ss_link {
  struct dlk_grpc grpc; /* first */
  struct dlk_net_endpoint endpoint;
  struct dlk_list in_client;
  struct dlk_etcd_client *client;
  struct dlk_host *host;
  struct dlk_ss_events events;
  void *user, *owner;
  size_t member, failures; /* connected to next; attempts in a row */
  int64_t seconds, lease;
  uint32_t epoch; /* driver.c, E1 */
  unsigned turn;  /* of the password */
  bool up;        /* READY: the recipe may ask */
  bool closed, gone;
  bool busy;                   /* the host runs the loop for it */
  struct dlk_grpc_call hello;  /* the handshake's; later the good-bye */
  struct dlk_grpc_call keeper; /* LeaseKeepAlive */
  struct dlk_grpc_call watcher;
  struct dlk_timer soon, late;
  struct dlk_post post;
  unsigned alive; /* what the loop still has of it */
  struct dlk_ss_asks asks;
  struct dlk_map watches; /* watch.c */
  int64_t last_watch;
};

extern const struct dlk_ss_driver dlk_etcd_driver; /* driver.c */

/* ---- link.c ---- */

/* The session is over; nothing of l may be used afterwards. */
void dlk_etcd_link_end(struct dlk_ss_link *l, enum dlk_ss_end end,
                       const char *text);
/* Soon, in the loop: writes and answers. */
void dlk_etcd_link_wake(struct dlk_ss_link *l);
/* What it waits for has changed; it is READY, or is no more. */
void dlk_etcd_link_busy(struct dlk_ss_link *l);
void dlk_etcd_link_up(struct dlk_ss_link *l, bool up);
/* "/dlock/~7587862094fe/00000001"; where the number begins. */
size_t dlk_etcd_epoch_key(const struct dlk_ss_link *l, uint32_t epoch,
                          struct dlk_buf *out);
/* Fails without the session's lease. */
void dlk_etcd_put_epoch(const struct dlk_ss_link *l, struct dlk_buf *out);
bool dlk_etcd_denied(const struct dlk_ss_link *l,
                     const struct dlk_grpc_call *c);
/* The call ended by the connection's fault: the connection is dropped. */
bool dlk_etcd_link_lost(struct dlk_ss_link *l, const struct dlk_grpc_call *c);

/* ---- asks.c ---- */

extern const struct dlk_ss_asks_type dlk_etcd_asks;
bool dlk_etcd_send(struct dlk_ss_link *l, const struct dlk_ss_request *q,
                   dlk_ss_answer *answer, void *who, uint32_t tag);
/* Answers what is done; false: l has ended. */
bool dlk_etcd_deliver(struct dlk_ss_link *l);
int64_t dlk_etcd_oldest(const struct dlk_ss_link *l);
const char *dlk_etcd_guard_error(void *client, const struct dlk_op *op);

/* ---- watch.c ---- */

/* Tells of the first change of path (a node's, or a folder's names) after that
 * revision. False: no memory. */
bool dlk_etcd_watch_path(struct dlk_ss_link *l, const char *path, bool folder,
                         int64_t revision);
/* On a new connection. */
void dlk_etcd_watches_renew(struct dlk_ss_link *l);
void dlk_etcd_watches_end(struct dlk_ss_link *l);

#endif
