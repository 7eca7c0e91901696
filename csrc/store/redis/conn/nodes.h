/* The nodes of a cluster and which of them has which slot. No time, and no
 * requests: those are the map's (cluster_map.c) and the router's. */
#ifndef DLK_STORE_REDIS_CONN_NODES_H
#define DLK_STORE_REDIS_CONN_NODES_H

#include "store/redis/conn/net.h"
#include "store/redis/wire/names.h"

#define DLK_REDIS_NODES 1000 /* Redis Cluster's own limit */

enum dlk_redis_node_state {
  DLK_NODE_LIVE,
  DLK_NODE_RETIRING,
  DLK_NODE_RETIRED
};

struct dlk_redis_map;

struct dlk_redis_node {
  void *router;
  struct dlk_redis_link *link;
  struct dlk_net_place place;   /* as the cluster names it */
  struct dlk_net_place reached; /* as we do (address_map) */
  struct dlk_net_fixed at;
  char id[DLK_REDIS_NODE_ID];
  enum dlk_redis_node_state state;
  bool mapped;     /* it has slots */
  uint16_t number; /* its index + 1 */
  /* The map's: */
  struct dlk_redis_map *map;
  struct dlk_redis_req ask;
  bool asking, failed;
  /* The router's: */
  uint64_t connections; /* of its link, as seen last */
  int64_t heard_at;     /* its last answer */
  size_t open;          /* requests of others */
  bool lost;            /* some, with a connection that it may not know lost */
};

struct dlk_redis_nodes {
  /* What each link is made of. */
  struct dlk_host *host;
  const struct dlk_conf *conf;
  struct dlk_net_tls *tls;
  struct dlk_redis_settings settings;
  const char *channel;
  const struct dlk_redis_link_events *events; /* arg: the node */
  void *router;
  struct dlk_net_wake wake;
  unsigned alive; /* links that have not stopped */
  struct dlk_redis_node *all[DLK_REDIS_NODES];
  size_t count; /* places used there, with gaps */
  bool known;   /* the map */
  uint16_t owners[DLK_REDIS_SLOTS], next[DLK_REDIS_SLOTS]; /* numbers */
};

/* Finds or makes it; NULL: no room. */
struct dlk_redis_node *dlk_redis_nodes_at(struct dlk_redis_nodes *s,
                                          const struct dlk_net_place *place);
/* Adds those of the URL. */
void dlk_redis_nodes_seed(struct dlk_redis_nodes *s);
void dlk_redis_nodes_forget(struct dlk_redis_nodes *s, size_t i);

/* NULL: none. */
struct dlk_redis_node *dlk_redis_nodes_owner(const struct dlk_redis_nodes *s,
                                             int slot);
/* A connected one, if there is any. */
struct dlk_redis_node *dlk_redis_nodes_any(const struct dlk_redis_nodes *s);
/* The first one with that id or, if `behind`, a larger one. */
struct dlk_redis_node *dlk_redis_nodes_from(const struct dlk_redis_nodes *s,
                                            const char *id, bool behind);

struct dlk_redis_news {
  size_t primaries;
  bool changed;
  bool left; /* a primary has no slots any more */
};

/* Takes the reply to CLUSTER SLOTS, if it names a node. */
bool dlk_redis_nodes_map(struct dlk_redis_nodes *s,
                         const struct dlk_redis_node *by,
                         const struct redisReply *reply,
                         struct dlk_redis_news *news);

#endif
