/* Requests that count only when replicas have them: WAIT behind the batch. */
#ifndef DLK_STORE_REDIS_CONN_DURABLE_H
#define DLK_STORE_REDIS_CONN_DURABLE_H

#include "store/redis/conn/pipe.h"

struct dlk_redis_durable {
  /* Set by the owner: */
  unsigned wanted;      /* so many replicas; 0: WAIT is never sent */
  bool all;             /* and as many as there are, which INFO tells and, */
  const int64_t *known; /* not NULL, the Sentinels; -1: they do not */
  int64_t timeout;      /* for them */
  /* The server refused WAIT, and what it had to confirm is of unknown outcome
   * by now. */
  void (*refused)(struct dlk_redis_durable *d, struct dlk_error *why);
  /* Fewer had it in time than were wanted, or `known` is old. */
  void (*doubt)(struct dlk_redis_durable *d);
  struct dlk_redis_pipe *pipe;
  const char *shown; /* the server, for messages */
  int64_t asked;     /* when `known` was last doubted, or got */
  unsigned listed;   /* by INFO: the most of late, */
  int64_t listed_at; /* then */
  int64_t have, now; /* what WAIT and INFO said, or -1 */
  bool scarce;       /* there were too few of them the last time */
  bool waits;        /* a WAIT is under way: nothing is to be written */
  struct dlk_redis_req wait;
};

/* Unless `waits`: writes all that waits, and WAIT behind it if some of it is
 * durable; without memory pipe->out is `failed`. */
void dlk_redis_durable_write(struct dlk_redis_durable *d, int64_t at);

/* How many replicas the answer to INFO replication lists, whatever state they
 * are in; -1: it is no such answer. */
int64_t dlk_redis_durable_listed(const char *text);
/* It listed so many at that time. */
void dlk_redis_durable_count(struct dlk_redis_durable *d, int64_t listed,
                             int64_t at);
/* How many there are, as far as INFO and the Sentinels say; and how many have
 * to confirm. */
unsigned dlk_redis_durable_there(const struct dlk_redis_durable *d);
unsigned dlk_redis_durable_wanted(const struct dlk_redis_durable *d);

#endif
