/* One request: a script on the names of one key, or a plain command. */
#ifndef DLK_STORE_REDIS_OP_CALL_H
#define DLK_STORE_REDIS_OP_CALL_H

#include "store/redis/op/rules.h"
#include "store/redis/op/store.h"

struct dlk_redis_call;

struct dlk_redis_result {
  enum dlk_redis_verdict verdict;
  const struct redisReply *reply; /* GOOD */
  const struct dlk_error *err;    /* not GOOD */
  bool begun;  /* REFUSED, and the script may have written before that */
  bool passes; /* REFUSED, and by itself it will not be, some day */
};

typedef void dlk_redis_on_answer(struct dlk_redis_call *call,
                                 const struct dlk_redis_result *r);
typedef void dlk_redis_args(struct dlk_redis_call *call, struct dlk_buf *out);

/* Embedded in its waiter, which must stay while busy is true. */
struct dlk_redis_call {
  struct dlk_redis_req req;
  struct dlk_redis *store;
  dlk_redis_on_answer *answer;
  /* Writes the ARGV of a script, or a whole command. */
  dlk_redis_args *args;
  const char *key;
  size_t key_len;
  int64_t holds;    /* for how long the lease that it is about may hold */
  const char *tail; /* TRY, JOIN, REFRESH: one more argument, or NULL */
  size_t tail_len;
  size_t more;   /* arguments beyond the script's own */
  int8_t script; /* enum dlk_redis_script, or DLK_REDIS_NO_SCRIPT */
  bool by_text, busy;
  bool in_order; /* by text if the script may be missing: a repetition at
                  * NOSCRIPT would run behind the caller's next request */
  bool probes;   /* it was refused, and asks which right is missing */
  bool scarce;   /* answered, and fewer replicas than are wanted have it: */
  unsigned have, wanted;
  uint64_t connection; /* link->connections when it was written */
  bool lifts; /* it was written so that it lifts the counter (fence.c) */
};

/* Its key; false: the key begins as our own names do. */
bool dlk_redis_call_key(struct dlk_redis_call *call, const char *key,
                        size_t len);
#define DLK_REDIS_NO_SCRIPT (-1)
/* Sends the script. TAKE is TRY where fence.c knows no counter at the write.
 * NO_SCRIPT: a command with one reply, which `args` writes. */
void dlk_redis_call_send(struct dlk_redis_call *call, int script);
/* Where its key's messages reach us, as an argument. */
void dlk_redis_call_put_channel(const struct dlk_redis_call *call,
                                struct dlk_buf *out);
/* True: it was not sent and will not be. */
bool dlk_redis_call_withdraw(struct dlk_redis_call *call);

static inline bool dlk_redis_call_is_in(const struct dlk_redis_call *call,
                                        int slot) {
  return slot == DLK_REDIS_ANY_SLOT || call->req.slot == slot;
}

#endif
