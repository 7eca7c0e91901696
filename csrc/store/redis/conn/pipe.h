/* The requests of one connection and their bytes: what waits to be written,
 * what was written and is not answered, and the replies that come back. Knows
 * no socket and no time. */
#ifndef DLK_STORE_REDIS_CONN_PIPE_H
#define DLK_STORE_REDIS_CONN_PIPE_H

#include "store/redis/conn/link.h"
#include "store/redis/wire/brief.h"
#include "store/redis/wire/codec.h"

struct redisReader;

struct dlk_redis_pipe {
  struct dlk_list waiting, flying; /* not written yet; not answered yet */
  struct dlk_list settling; /* answered, but the replicas are not known yet */
  bool replicas;            /* durable requests wait for them */
  struct dlk_buf *out;      /* what is written goes there */
  const char *in; /* received, and neither read nor fed to the reader yet */
  size_t in_len;
  struct dlk_redis_brief brief;
  struct redisReader *reader;
  struct dlk_redis_scan scan; /* of what the reader was fed with */
  char refused[160];          /* first error reply of the request under way */
};

void dlk_redis_pipe_init(struct dlk_redis_pipe *p, struct dlk_buf *out);
/* For a fresh connection; false: out of memory. */
bool dlk_redis_pipe_open(struct dlk_redis_pipe *p);
/* The connection is gone; its requests stay in their lists. */
void dlk_redis_pipe_close(struct dlk_redis_pipe *p);

void dlk_redis_pipe_submit(struct dlk_redis_pipe *p, struct dlk_redis_req *r);
bool dlk_redis_pipe_withdraw(struct dlk_redis_pipe *p, struct dlk_redis_req *r);
/* Encodes a request that is in no list, past all that wait; */
void dlk_redis_pipe_write(struct dlk_redis_pipe *p, struct dlk_redis_req *r,
                          int64_t at);
/* and all that wait. True: some of them are durable. */
bool dlk_redis_pipe_write_waiting(struct dlk_redis_pipe *p, int64_t at);
/* Whether one that waits is not sent again if its answer is lost. */
bool dlk_redis_pipe_has_only_once(const struct dlk_redis_pipe *p);
/* The oldest request that was not answered, or NULL. */
struct dlk_redis_req *dlk_redis_pipe_oldest(const struct dlk_redis_pipe *p);

/* Whether the server said one line and hung up, as it does to whoever comes
 * (maxclients, protected mode). What a user may not do is no such line: a
 * handshake goes on behind that. */
bool dlk_redis_pipe_turned_away(struct dlk_redis_pipe *p);

/* Takes what was received, which has to stay until it has no more replies. */
void dlk_redis_pipe_feed(struct dlk_redis_pipe *p, const char *bytes, size_t n);
/* The next whole reply, which is there until it is dropped, or NULL: there are
 * no more. False: what was received breaks the protocol, or there was no memory
 * for it. */
bool dlk_redis_pipe_next(struct dlk_redis_pipe *p, void **reply);
/* Why: there was no memory for what the server answered. */
bool dlk_redis_pipe_starved(const struct dlk_redis_pipe *p);
void dlk_redis_pipe_drop(struct dlk_redis_pipe *p, void *reply);
/* Gives it to the oldest request. False: there is none. *kept: it is dropped
 * later. */
bool dlk_redis_pipe_answer(struct dlk_redis_pipe *p, struct redisReply *reply,
                           bool *kept);
/* So many replicas have what was written by all requests that are settling. */
void dlk_redis_pipe_settle(struct dlk_redis_pipe *p, unsigned have,
                           unsigned wanted);
/* The number is not known: they end as UNKNOWN. */
void dlk_redis_pipe_unsettled(struct dlk_redis_pipe *p,
                              const struct dlk_error *why);
/* All that was written, in the order in which it ends. */
void dlk_redis_pipe_take(struct dlk_redis_pipe *p, struct dlk_list *to);

/* Ends all of a list that was taken out of the pipe. */
void dlk_redis_pipe_end(struct dlk_list *l, enum dlk_redis_outcome outcome,
                        const struct dlk_error *why);
/* Forgets what flies, without `done`. */
void dlk_redis_pipe_forget(struct dlk_redis_pipe *p);

#endif
