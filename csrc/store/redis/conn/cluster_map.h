/* The map of a cluster, kept fresh: one node after another is asked for it. */
#ifndef DLK_STORE_REDIS_CONN_CLUSTER_MAP_H
#define DLK_STORE_REDIS_CONN_CLUSTER_MAP_H

#include "store/redis/conn/nodes.h"

/* It calls its router; arg: nodes.router. */
struct dlk_redis_map_events {
  void (*taken)(void *arg, struct dlk_redis_node *by,
                const struct dlk_redis_news *news);
  /* Each node was asked. */
  void (*failed)(void *arg, const struct dlk_error *why);
};

struct dlk_redis_map {
  struct dlk_redis_nodes nodes; /* set by the router, but for what it knows */
  const struct dlk_redis_map_events *events;
  struct dlk_timer timer;
  bool stopped;
  bool soft, trouble;  /* why it is asked for */
  size_t asking, turn; /* questions under way; the last asked node */
  int64_t ask_at;      /* or 0 */
  int64_t asked_at, taken_at, failed_at;
  struct dlk_redis_node *doubted; /* or NULL */
  struct dlk_error why;           /* of the last failed question */
};

/* The first use. */
void dlk_redis_map_start(struct dlk_redis_map *m);
/* Nothing is asked for any more. */
void dlk_redis_map_stop(struct dlk_redis_map *m);

/* There is none, or none that suffices. */
void dlk_redis_map_need(struct dlk_redis_map *m);
/* A slot has moved, and it works without a new map. */
void dlk_redis_map_moved(struct dlk_redis_map *m);
/* The node may serve its slots no more. */
void dlk_redis_map_doubt(struct dlk_redis_map *m, struct dlk_redis_node *n);
/* A request is under way. */
void dlk_redis_map_use(struct dlk_redis_map *m);
/* True: the node's requests wait for a connection; then a new map may help. */
bool dlk_redis_map_lags(struct dlk_redis_map *m,
                        const struct dlk_redis_node *n);
/* True: nothing needs the node. */
bool dlk_redis_map_spares(const struct dlk_redis_map *m,
                          const struct dlk_redis_node *n);
/* Stops the node's link. */
void dlk_redis_map_retire(struct dlk_redis_map *m, struct dlk_redis_node *n);

#endif
