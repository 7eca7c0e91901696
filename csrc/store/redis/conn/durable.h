/* What counts only when replicas have it: WAIT behind what was written. */
#ifndef DLK_STORE_REDIS_CONN_DURABLE_H
#define DLK_STORE_REDIS_CONN_DURABLE_H

#include "store/redis/conn/pipe.h"

struct dlk_redis_durable {
  /* Set by the owner: */
  unsigned wanted; /* so many replicas; 0: WAIT is never sent */
  int64_t timeout; /* for them */
  /* The server refused WAIT, and what it had to confirm is of unknown outcome
   * by now. */
  void (*refused)(struct dlk_redis_durable *d, struct dlk_error *why);
  /* Fewer had it in time than were wanted. */
  void (*in_vain)(struct dlk_redis_durable *d);
  struct dlk_redis_pipe *pipe;
  const char *shown; /* the server, for messages */
  bool scarce;       /* there were too few of them the last time */
  bool waits;        /* a WAIT is under way: nothing is to be written */
  struct dlk_redis_req wait;
};

/* Unless `waits`: writes all that waits, and WAIT behind it if some of it is
 * durable; without memory pipe->out is `failed`. */
void dlk_redis_durable_write(struct dlk_redis_durable *d, int64_t at);

#endif
