/* The first attempt of an acquire, by one of three scripts:
 * - take: SET NX PX and INCRBY F, for an exclusive lock that publishes nothing,
 *   where the counter is known (fence.c). It does not look at the queue;
 * - try: where the counter is not known (call.c); for all other locks, and for
 *   a key that others wanted lately, if we do not wait. It lets in the queue
 *   before us;
 * - join (wait.c): for these if we wait.
 *
 * I1 A hold and its fence are made by one script, or not at all. Between two
 *    plain commands a break, an eviction or a FLUSHALL can let a second holder
 *    in, and the older one then gets the larger fence.
 * I2 A token whose outcome is unknown is never asked for again.
 *
 * Lost reply: the next connection first has the server drop the old one
 * (link.h). The token is taken back (orphan.c), and the attempt begins anew:
 * I2.
 * Cancel against grant: the op ends well; the engine uses or releases it. */
#include "store/redis/recipe/acquire.h"

#include <hiredis/hiredis.h>

#include "store/redis/recipe/candidate.h"
#include "store/redis/recipe/vote.h"
#include "store/redis/recipe/wait.h"
#include "store/redis/wire/codec.h"
#include "store/redis/wire/reply.h"

static void try_once(struct dlk_redis_try *t);

static void anew(struct dlk_redis_try *t) {
  dlk_redis_token_back(t);
  try_once(t);
}

/* Somebody else holds it. */
static void occupied(struct dlk_redis_try *t, const redisReply *holder) {
  dlk_redis_held_by(t, holder);
  if (t->op->ending != DLK_OK) {
    dlk_redis_give_up(t);
    return;
  }
  dlk_redis_mark_crowded(t->store, t->op->key, t->op->key_len);
  if (t->op->wait)
    dlk_redis_queue(t);
  else
    dlk_redis_done_code(t, DLK_BUSY);
}

static void tried(struct dlk_redis_try *t, const redisReply *reply) {
  bool take = t->call.script == DLK_REDIS_TAKE;
  const char *word = dlk_redis_word(reply);
  int64_t fence = take                       ? dlk_redis_number(reply, -1)
                  : strcmp(word, "got") == 0 ? dlk_redis_int(reply, 1, -1)
                                             : -1;
  if (fence >= DLK_REDIS_FENCE_FIRST) {
    dlk_redis_granted(t, fence, t->call.req.sent, 0);
  } else if (take && reply->type == REDIS_REPLY_STRING) {
    occupied(t, reply);
  } else if (strcmp(word, "busy") == 0) {
    occupied(t, dlk_redis_at(reply, 1));
  } else if (strcmp(word, "limit") == 0) {
    dlk_redis_other_limit(t);
  } else if (take && reply->type == REDIS_REPLY_NIL) {
    dlk_redis_fence_missing(&t->store->fences, t->call.key, t->call.key_len);
    if (t->op->ending != DLK_OK)
      dlk_redis_give_up(t);
    else
      try_once(t);
  } else {
    dlk_redis_token_back(t);
    dlk_redis_done_odd(t);
  }
}

static const struct dlk_redis_step taking = {.aim = DLK_REDIS_TO_TRY,
                                             .script = DLK_REDIS_TAKE,
                                             .args = dlk_redis_acquire_args,
                                             .answer = tried,
                                             .again = try_once,
                                             .anew = anew,
                                             .back = dlk_redis_token_back};

static const struct dlk_redis_step trying = {.aim = DLK_REDIS_TO_TRY,
                                             .script = DLK_REDIS_TRY,
                                             .args = dlk_redis_acquire_args,
                                             .answer = tried,
                                             .again = try_once,
                                             .anew = anew,
                                             .back = dlk_redis_token_back};

static void try_once(struct dlk_redis_try *t) {
  const struct dlk_op *op = t->op;
  bool exclusive = op->lease->want.units == 0 && !op->lease->value;
  bool crowded = dlk_redis_is_crowded(t->store, op->key, op->key_len);
  if (op->wait && (!exclusive || crowded || t->acquire.order[0] || op->queued))
    dlk_redis_queue(t);
  else
    dlk_redis_send(t, exclusive && !crowded ? &taking : &trying);
}

void dlk_redis_acquire(struct dlk_redis_try *t) {
  struct dlk_redis_hold *h = dlk_redis_try_hold(t);
  h->lease = t->op->lease;
  h->waiting = t->op;
  h->call.store = t->store;
  (void)dlk_redis_call_key(&h->call, h->lease->key, h->lease->key_len);
  t->call.holds = t->op->lease->ttl;
  t->call.tail = t->op->lease->value;
  t->call.tail_len = t->op->lease->value_len;
  dlk_redis_draw_token(t);
  if (t->store->max_ttl > 0)
    dlk_redis_vote(t);
  else
    try_once(t);
}
