/* Where a cluster's slots are, as its nodes tell: the map and redirects. */
#ifndef DLK_STORE_REDIS_WIRE_SLOTS_H
#define DLK_STORE_REDIS_WIRE_SLOTS_H

#include <stdbool.h>
#include <stddef.h>

#include "net/endpoint.h"

struct redisReply;

#define DLK_REDIS_NODE_ID 9 /* as much of a node's id as tells it apart */

struct dlk_redis_range {
  unsigned first, last; /* slots */
  struct dlk_net_place place;
  char id[DLK_REDIS_NODE_ID];
};

/* Reads a range of CLUSTER SLOTS' reply. asked: the host that sent it, meant
 * by an empty name. False: it names no place that can be used. */
bool dlk_redis_range_read(const struct redisReply *range, const char *asked,
                          struct dlk_redis_range *out);

enum dlk_redis_redirect {
  DLK_REDIS_NOWHERE, /* the error is another one */
  DLK_REDIS_MOVED,
  DLK_REDIS_ASK,
  DLK_REDIS_TRYAGAIN,
  DLK_REDIS_CLUSTERDOWN
};

/* Reads an error's text. MOVED, ASK: *slot, and *place; its host is "" if that
 * is unknown. */
enum dlk_redis_redirect dlk_redis_redirect_read(const char *text,
                                                const char *asked,
                                                unsigned *slot,
                                                struct dlk_net_place *place);

#endif
