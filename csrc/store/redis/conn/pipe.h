/* The requests of one connection, their bytes and their replies, without socket
 * and time. */
#ifndef DLK_STORE_REDIS_CONN_PIPE_H
#define DLK_STORE_REDIS_CONN_PIPE_H

#include "store/redis/conn/link.h"
#include "store/redis/wire/brief.h"
#include "store/redis/wire/codec.h"

struct redisReader;

struct dlk_redis_pipe {
  struct dlk_list waiting, flying; /* to be written; to be answered */
  struct dlk_list settling;        /* answered, to be confirmed by replicas */
  bool replicas;
  struct dlk_buf *out;
  const char *in; /* received, and not yet read */
  size_t in_len;
  struct dlk_redis_brief brief;
  struct redisReader *reader;
  struct dlk_redis_scan scan;
  char refused[160]; /* the current request's first error */
};

void dlk_redis_pipe_init(struct dlk_redis_pipe *p, struct dlk_buf *out);
/* For a fresh connection; false: out of memory. */
bool dlk_redis_pipe_open(struct dlk_redis_pipe *p);
/* The requests stay in their lists. */
void dlk_redis_pipe_close(struct dlk_redis_pipe *p);

void dlk_redis_pipe_submit(struct dlk_redis_pipe *p, struct dlk_redis_req *r);
bool dlk_redis_pipe_withdraw(struct dlk_redis_pipe *p, struct dlk_redis_req *r);
/* Writes a request that is in no list, before all that wait. */
void dlk_redis_pipe_write(struct dlk_redis_pipe *p, struct dlk_redis_req *r,
                          int64_t at);
/* True: one is durable. */
bool dlk_redis_pipe_write_waiting(struct dlk_redis_pipe *p, int64_t at);
/* True: one that waits has `only_once`. */
bool dlk_redis_pipe_has_only_once(const struct dlk_redis_pipe *p);
/* Unanswered, or NULL. */
struct dlk_redis_req *dlk_redis_pipe_oldest(const struct dlk_redis_pipe *p);

/* The bytes stay until `next` has no more replies. */
void dlk_redis_pipe_feed(struct dlk_redis_pipe *p, const char *bytes, size_t n);
/* Returns the next whole reply, alive until `drop`, or NULL. False: the bytes
 * break the protocol, or memory lacks (`starved`). */
bool dlk_redis_pipe_next(struct dlk_redis_pipe *p, void **reply);
bool dlk_redis_pipe_starved(const struct dlk_redis_pipe *p);
void dlk_redis_pipe_drop(struct dlk_redis_pipe *p, void *reply);
/* Gives the reply to the oldest request. False: there is none. *kept: it is
 * dropped later. */
bool dlk_redis_pipe_answer(struct dlk_redis_pipe *p, struct redisReply *reply,
                           bool *kept);
/* Ends all settling requests: so many replicas have their writes. */
void dlk_redis_pipe_settle(struct dlk_redis_pipe *p, unsigned have,
                           unsigned wanted);
/* Ends them as UNKNOWN. */
void dlk_redis_pipe_unsettled(struct dlk_redis_pipe *p,
                              const struct dlk_error *why);
/* Moves all that was written, in the order of its end. */
void dlk_redis_pipe_take(struct dlk_redis_pipe *p, struct dlk_list *to);

/* Ends a list from `take`. */
void dlk_redis_pipe_end(struct dlk_list *l, enum dlk_redis_outcome outcome,
                        const struct dlk_error *why);
/* Forgets what flies, without `done`. */
void dlk_redis_pipe_forget(struct dlk_redis_pipe *p);

#endif
