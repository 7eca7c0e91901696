/* The nodes: a Redis store each, which takes a facade for its host. */
#ifndef DLK_STORE_REDLOCK_NODE_H
#define DLK_STORE_REDLOCK_NODE_H

#include "net/wake.h"
#include "store/redlock/count.h"
#include "store/store.h"

struct dlk_redlock;
struct dlk_redlock_vote;

struct dlk_redlock_node {
  struct dlk_host host; /* first: the facade */
  struct dlk_redlock *all;
  void *store; /* of dlk_redis_store */
  struct dlk_conf conf;
  struct dlk_addr at;
  unsigned number;
  bool served; /* it has answered once */
};

struct dlk_redlock {
  struct dlk_host *host;
  struct dlk_conf conf;
  unsigned n, q, stopped;
  int64_t node_timeout, max_ttl;
  bool stopping;
  struct dlk_net_wake wake; /* all nodes' news */
  struct dlk_list asks;     /* that are under way */
  struct dlk_list votes;    /* hold.c */
  struct dlk_list holds;
  struct dlk_list polls; /* poll.c */
  struct dlk_redlock_node nodes[DLK_REDLOCK_NODES];
};

/* One operation on one node. */
struct dlk_redlock_ask {
  struct dlk_op op;
  struct dlk_redlock_node *node;
  struct dlk_redlock_vote *vote; /* that it is about, or NULL */
  void *owner;
  struct dlk_timer timer; /* a release's */
  /* Its end; the ask is freed behind it, with op.result. */
  void (*answer)(struct dlk_redlock_ask *a, const struct dlk_error *err);
  struct dlk_list entry;
  _Alignas(16) char data[];
};

static inline int64_t dlk_redlock_now(struct dlk_redlock *s) {
  return s->host->now(s->host);
}

/* Why nodes failed, of one round. */
struct dlk_redlock_failures {
  unsigned count, lasting;
  struct dlk_error error; /* the first one that lasts, or the first one */
};

/* err NULL: out of memory. */
void dlk_redlock_failed(struct dlk_redlock_failures *f,
                        const struct dlk_error *err);
/* DLK_UNAVAILABLE, unless so many failures last that a majority never comes. */
enum dlk_code dlk_redlock_failure(const struct dlk_redlock *s,
                                  const struct dlk_redlock_failures *f);
/* How long a round may take: a connection may have to be made first. */
int64_t dlk_redlock_patience(const struct dlk_redlock *s);
/* votes: what the facade tells of leases. */
enum dlk_code dlk_redlock_nodes_new(struct dlk_redlock *s,
                                    const struct dlk_host *votes,
                                    struct dlk_error *err);
/* Two are one server by different names; then err says it. */
bool dlk_redlock_has_twins(const struct dlk_redlock *s, struct dlk_error *err);
void dlk_redlock_nodes_free(struct dlk_redlock *s);
/* NULL: out of memory. */
struct dlk_redlock_ask *dlk_redlock_ask_new(struct dlk_redlock_node *node,
                                            enum dlk_op_kind kind,
                                            const char *key, size_t key_len);
void dlk_redlock_ask_send(struct dlk_redlock_ask *a);
/* NULL: nothing. It may end at once. */
void dlk_redlock_ask_cancel(struct dlk_redlock_ask *a);

#endif
