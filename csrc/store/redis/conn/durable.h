/* A WAIT follows each batch with durable requests. */
#ifndef DLK_STORE_REDIS_CONN_DURABLE_H
#define DLK_STORE_REDIS_CONN_DURABLE_H

#include "store/redis/conn/pipe.h"

struct dlk_redis_durable {
  /* The owner sets: */
  unsigned wanted;      /* so many replicas; 0: WAIT is never sent */
  bool all;             /* and as many as INFO and `known` tell */
  const int64_t *known; /* by the Sentinels, or NULL; -1: they refuse */
  int64_t timeout;      /* of WAIT */
  /* WAIT was refused; its requests have ended as UNKNOWN. */
  void (*refused)(struct dlk_redis_durable *d, struct dlk_error *why);
  /* Too few confirmed in time, or `known` is old. */
  void (*doubt)(struct dlk_redis_durable *d);
  struct dlk_redis_pipe *pipe;
  const char *shown;
  int64_t asked;     /* when `known` was doubted or got */
  unsigned listed;   /* by INFO: the most of late */
  int64_t listed_at; /* when */
  int64_t have, now; /* the answers to WAIT and INFO, or -1 */
  bool scarce;       /* the last WAIT found too few */
  bool waits;        /* a WAIT is under way */
  struct dlk_redis_req wait;
};

/* Unless `waits`: writes the waiting requests, and WAIT behind a durable
 * one. */
void dlk_redis_durable_write(struct dlk_redis_durable *d, int64_t at);

/* Returns the replicas, in any state, of INFO replication; -1: none told. */
int64_t dlk_redis_durable_listed(const char *text);
void dlk_redis_durable_count(struct dlk_redis_durable *d, int64_t listed,
                             int64_t at);
/* The replicas that exist, and those that must confirm. */
unsigned dlk_redis_durable_there(const struct dlk_redis_durable *d);
unsigned dlk_redis_durable_wanted(const struct dlk_redis_durable *d);

#endif
