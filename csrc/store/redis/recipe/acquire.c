/* The first attempt of an acquire, by one of two ways:
 * - pair: MULTI, SET NX PX, INCR F, EXEC in one write;
 * - script: scripts/try.lua. It is the way of the first request for a key
 *   on a connection (fence.c), of a lock that is shared or publishes, and of a
 *   key that had a holder at the last attempt.
 *
 * I1 A fence is valid only if the SET of its own EXEC said OK. Between two
 *    plain commands a break, an eviction or a FLUSHALL can let a second holder
 *    in, and the older one then gets the larger fence.
 * I2 A fence below 10^12 says that the counter was missing. seed.lua, which
 *    checks our token, then takes it from the server's clock.
 * I3 A token whose outcome is unknown is never asked for again.
 *
 * Lost reply: the next connection first has the server drop the old one
 * (link.h). The token is taken back (orphan.c), and the attempt begins anew:
 * I3.
 * Refused MULTI: the SET behind it may have run. The token is taken back
 * before the caller hears of the refusal.
 * Refused INCR: the SET ran. Likewise.
 * Death before the seed: a counter of a few bytes stays until the next use.
 * Cancel against grant: the op ends well; the engine uses or releases it. */
#include "store/redis/recipe/acquire.h"

#include <hiredis/hiredis.h>

#include "store/redis/op/orphan.h"
#include "store/redis/recipe/candidate.h"
#include "store/redis/recipe/wait.h"
#include "store/redis/wire/codec.h"
#include "store/redis/wire/errors.h"
#include "store/redis/wire/reply.h"

static void try_once(struct dlk_redis_try *t);

static void anew(struct dlk_redis_try *t) {
  dlk_redis_token_back(t);
  try_once(t);
}

/* ---- what stands on the server though it was refused ---- */

static const struct dlk_redis_step settling;

static void settled(struct dlk_redis_try *t, const redisReply *reply) {
  if (dlk_redis_int(reply, 1, 0) == 1) /* more dead waiters */
    dlk_redis_send(t, &settling);
  else if (t->trouble)
    dlk_redis_done(t, t->trouble);
  else
    dlk_redis_done_code(t, DLK_UNAVAILABLE);
}

static const struct dlk_redis_step settling = {.aim = DLK_REDIS_TO_SETTLE,
                                               .script = DLK_REDIS_LEAVE,
                                               .args = dlk_redis_leave_all,
                                               .answer = settled,
                                               .back = dlk_redis_token_back,
                                               .leave = dlk_redis_queue_leave};

static void settle(struct dlk_redis_try *t) {
  dlk_redis_send(t, &settling);
}

/* ---- in vain ---- */

static void name_args(struct dlk_redis_try *t, struct dlk_buf *out) {
  struct dlk_redis_name name;
  dlk_redis_names_of(&t->store->names, &name, t->call.key, t->call.key_len,
                     t->call.req.slot);
  dlk_redis_put_array(out, 2);
  dlk_redis_put(out, "GET", 3);
  dlk_redis_put_name(out, &name, DLK_REDIS_LOCK);
}

static void named(struct dlk_redis_try *t, const redisReply *reply) {
  dlk_redis_held_by(t, reply);
  dlk_redis_done_code(t, DLK_BUSY);
}

/* Whose it is, for the message: SET does not say. Only a try that failed pays
 * for it. */
static const struct dlk_redis_step naming = {.aim = DLK_REDIS_TO_NAME,
                                             .script = DLK_REDIS_NO_SCRIPT,
                                             .args = name_args,
                                             .answer = named};

/* Somebody else holds it. */
static void occupied(struct dlk_redis_try *t) {
  if (t->op->ending != DLK_OK) {
    dlk_redis_give_up(t);
  } else if (!t->op->wait && t->op->holder[0]) {
    dlk_redis_done_code(t, DLK_BUSY);
  } else if (!t->op->wait) {
    dlk_redis_send(t, &naming);
  } else {
    dlk_redis_mark_crowded(t->store, t->op->key, t->op->key_len);
    dlk_redis_queue(t);
  }
}

/* ---- seeding the fence ---- */

static void seed_args(struct dlk_redis_try *t, struct dlk_buf *out) {
  dlk_redis_put_token(out, &dlk_redis_try_hold(t)->token);
}

static void seeded(struct dlk_redis_try *t, const redisReply *reply) {
  int64_t fence = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
  if (fence >= DLK_REDIS_FENCE_SEEDED) {
    dlk_redis_granted(t, fence, t->op->lease->sent, 0);
  } else if (t->op->ending != DLK_OK) {
    dlk_redis_give_up(t);
  } else { /* broken or expired before it was ours to use */
    dlk_redis_new_token(t);
    try_once(t);
  }
}

static const struct dlk_redis_step seeding = {.aim = DLK_REDIS_TO_SEED,
                                              .script = DLK_REDIS_SEED,
                                              .args = seed_args,
                                              .answer = seeded,
                                              .anew = anew,
                                              .back = dlk_redis_token_back};

static void seeded_in_vain(struct dlk_redis_try *t, const redisReply *reply) {
  (void)reply;
  occupied(t);
}

/* Our INCR made the counter of a key that somebody else holds, which we knew to
 * be there: it is given its time to live, or it would stay for ever. */
static const struct dlk_redis_step seeding_in_vain = {.aim = DLK_REDIS_TO_TRY,
                                                      .script = DLK_REDIS_SEED,
                                                      .args = seed_args,
                                                      .answer = seeded_in_vain,
                                                      .again = try_once,
                                                      .anew = anew,
                                                      .back =
                                                          dlk_redis_token_back};

/* ---- the first attempt ---- */

static void try_pair(struct dlk_redis_try *t, struct dlk_buf *out) {
  struct dlk_redis_hold *h = dlk_redis_try_hold(t);
  struct dlk_redis_name name;
  dlk_redis_names_of(&t->store->names, &name, t->call.key, t->call.key_len,
                     t->call.req.slot);
  dlk_buf_add(out, "*1\r\n$5\r\nMULTI\r\n*6\r\n$3\r\nSET\r\n", 28);
  dlk_redis_put_name(out, &name, DLK_REDIS_LOCK);
  dlk_redis_put_token(out, &h->token);
  dlk_buf_add(out, "$2\r\nNX\r\n$2\r\nPX\r\n", 16);
  dlk_redis_put_int(out, dlk_to_ms(t->op->lease->ttl));
  dlk_buf_add(out, "*2\r\n$4\r\nINCR\r\n", 14);
  dlk_redis_put_name(out, &name, DLK_REDIS_FENCE);
  dlk_buf_add(out, "*1\r\n$4\r\nEXEC\r\n", 14);
}

static void odd(struct dlk_redis_try *t) {
  dlk_redis_token_back(t);
  dlk_redis_done_odd(t);
}

static void tried_pair(struct dlk_redis_try *t, const redisReply *exec) {
  bool pair = exec->type == REDIS_REPLY_ARRAY && exec->elements == 2;
  const redisReply *set = pair ? exec->element[0] : NULL;
  const redisReply *incr = pair ? exec->element[1] : NULL;
  bool number = pair && incr->type == REDIS_REPLY_INTEGER;
  bool seeded = number && incr->integer >= DLK_REDIS_FENCE_SEEDED;
  if (pair && set->type == REDIS_REPLY_NIL) {
    dlk_redis_fence_contended(&t->store->fences, t->call.key, t->call.key_len);
    if (number && !seeded)
      dlk_redis_send(t, &seeding_in_vain);
    else
      occupied(t);
  } else if (pair && set->type == REDIS_REPLY_STATUS &&
             (incr->type == REDIS_REPLY_ERROR ||
              (number && incr->integer >= DLK_FENCE_END))) {
    struct dlk_error err; /* the token holds, without a fence */
    dlk_redis_call_refused(&t->call, number ? "ERR ~counter~" : incr->str,
                           &err);
    dlk_redis_trouble(t, &err);
    t->placed = true;
    settle(t);
  } else if (!number || set->type != REDIS_REPLY_STATUS) {
    odd(t);
  } else if (seeded) {
    dlk_redis_granted(t, incr->integer, t->call.req.sent, 0);
  } else {
    t->op->lease->sent = t->call.req.sent;
    t->placed = true; /* the token holds the lock */
    dlk_redis_send(t, &seeding);
  }
}

static void tried(struct dlk_redis_try *t, const redisReply *reply) {
  if (t->call.as_plain) {
    tried_pair(t, reply);
    return;
  }
  int64_t fence = dlk_redis_int(reply, 1, -1);
  const char *word = dlk_redis_word(reply);
  if (strcmp(word, "got") == 0 && fence > 0) {
    dlk_redis_granted(t, fence, t->call.req.sent, 0);
  } else if (strcmp(word, "limit") == 0) {
    dlk_redis_other_limit(t);
  } else if (strcmp(word, "busy") == 0) {
    dlk_redis_held_by(t, dlk_redis_at(reply, 1));
    occupied(t);
  } else {
    odd(t);
  }
}

static const struct dlk_redis_step trying = {.aim = DLK_REDIS_TO_TRY,
                                             .script = DLK_REDIS_TRY,
                                             .args = dlk_redis_acquire_args,
                                             .answer = tried,
                                             .again = try_once,
                                             .anew = anew,
                                             .back = dlk_redis_token_back,
                                             .leave = settle};

static const struct dlk_redis_step trying_pair = {.aim = DLK_REDIS_TO_TRY,
                                                  .script = DLK_REDIS_TRY,
                                                  .args =
                                                      dlk_redis_acquire_args,
                                                  .plain = try_pair,
                                                  .answer = tried,
                                                  .again = try_once,
                                                  .anew = anew,
                                                  .back = dlk_redis_token_back,
                                                  .leave = settle};

static void try_once(struct dlk_redis_try *t) {
  const struct dlk_op *op = t->op;
  /* What is to be published is stored with the hold, by the script. */
  bool exclusive = op->lease->want.units == 0 && !op->lease->value;
  if (op->wait && (!exclusive || t->acquire.order[0] || op->queued ||
                   dlk_redis_is_crowded(t->store, op->key, op->key_len)))
    dlk_redis_queue(t);
  else
    dlk_redis_send(t, exclusive ? &trying_pair : &trying);
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
  try_once(t);
}
