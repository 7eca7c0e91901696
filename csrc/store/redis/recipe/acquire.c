/* The uncontended acquire of an exclusive lock: MULTI, SET NX PX, INCR F, EXEC
 * in one write. The fence is valid only if its own EXEC's SET said OK:
 * between two plain commands a break, an eviction or a FLUSHALL can let a
 * second holder in, and the older one then gets the larger fence.
 *
 * The first request for a key on a connection is a script instead, and so is
 * one now and then later (fence.c says when, and why): it lifts the counter,
 * and gives it its time to live. It is also a script after an attempt that met
 * a holder, because a script that finds the lock held leaves the counter as it
 * is, and names the holder with the same answer.
 *
 * A fence below 10^12 says that the counter was missing although we knew it to
 * be there (FLUSHALL, an eviction); a script that checks our token then seeds
 * it from the server's clock. Should we die before that, a counter of a few
 * bytes stays until the key is next used.
 *
 * A MULTI that is refused (a right that was withdrawn) lets the SET behind it
 * run by itself. Then the token may hold although the answer is a refusal: it
 * is taken back before the caller hears of that.
 *
 * Lost replies: when the connection is lost with the request under way, the
 * token may or may not hold the key. The next connection first has the server
 * drop the old one (net.c), then the token is taken back in the background
 * (orphan.c), and the attempt begins anew with a new token: a token whose
 * outcome is unknown is never asked for again.
 *
 * A cancel that crosses the grant: the op then ends well, and the engine gives
 * the lock to the caller or releases it. */
#include "store/redis/recipe/acquire.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>

#include "store/redis/op/orphan.h"
#include "store/redis/recipe/candidate.h"
#include "store/redis/recipe/wait.h"
#include "store/redis/wire/codec.h"
#include "store/redis/wire/errors.h"
#include "store/redis/wire/reply.h"

static void try_once(struct dlk_redis_try *t);
static void seed(struct dlk_redis_try *t);

/* ---- what stands on the server though it was refused ---- */

static void settle_args(struct dlk_redis_call *call, struct dlk_buf *out) {
  struct dlk_redis_try *t = dlk_redis_try_by(call);
  dlk_redis_leave_args(out, &dlk_redis_try_hold(t)->token, 0);
}

static void settled(struct dlk_redis_call *call,
                    const struct dlk_redis_result *r) {
  struct dlk_redis_try *t = dlk_redis_try_by(call);
  if (r->verdict == DLK_REDIS_GOOD && dlk_redis_int(r->reply, 1, 0) == 1) {
    dlk_redis_call_script(call, DLK_REDIS_LEAVE); /* more dead waiters */
    return;
  }
  if (r->verdict != DLK_REDIS_GOOD)
    dlk_redis_new_token(t, true);
  dlk_redis_done(t, t->trouble ? t->trouble : r->err);
}

static void settle(struct dlk_redis_try *t, const struct dlk_error *refused) {
  dlk_redis_trouble(t, refused);
  t->step = DLK_REDIS_LEAVING;
  t->joined = true; /* for a cancel: there is something to leave */
  t->call.req.each = NULL;
  t->call.args = settle_args;
  t->call.answer = settled;
  dlk_redis_call_script(&t->call, DLK_REDIS_LEAVE);
}

/* After anything but an answer. `again` repeats what was not executed. */
static void no_answer(struct dlk_redis_try *t, const struct dlk_redis_result *r,
                      void (*again)(struct dlk_redis_try *)) {
  if (t->alone && r->verdict == DLK_REDIS_BAD && !t->store->stopping) {
    t->alone = false;
    settle(t, r->err);
    return;
  }
  bool unsure = r->verdict == DLK_REDIS_UNSURE || t->alone;
  bool over = r->verdict == DLK_REDIS_BAD || t->store->stopping;
  bool ending = t->op->ending != DLK_OK;
  bool repeat = !over && !ending && (unsure || dlk_redis_patient(t));
  dlk_redis_trouble(t, r->err);
  /* While its fence is seeded the token holds the lock. */
  if (unsure || (!repeat && t->step == DLK_REDIS_SEEDING)) {
    dlk_redis_new_token(t, true);
    again = try_once;
  }
  if (repeat)
    again(t);
  else if (!over && ending)
    dlk_redis_give_up(t);
  else
    dlk_redis_done(t, r->err);
}

/* ---- seeding the fence ---- */

static void seed_args(struct dlk_redis_call *call, struct dlk_buf *out) {
  struct dlk_redis_try *t = dlk_redis_try_by(call);
  dlk_redis_put_token(out, &dlk_redis_try_hold(t)->token);
}

static void seeded(struct dlk_redis_call *call,
                   const struct dlk_redis_result *r) {
  struct dlk_redis_try *t = dlk_redis_try_by(call);
  if (r->verdict != DLK_REDIS_GOOD) {
    no_answer(t, r, seed);
    return;
  }
  int64_t fence =
      r->reply->type == REDIS_REPLY_INTEGER ? r->reply->integer : -1;
  if (fence >= DLK_REDIS_FENCE_SEEDED) {
    dlk_redis_granted(t, fence, t->op->lease->sent, 0);
  } else if (t->op->ending != DLK_OK) {
    dlk_redis_give_up(t);
  } else { /* broken or expired before it was ours to use */
    dlk_redis_new_token(t, false);
    try_once(t);
  }
}

static void ask_seed(struct dlk_redis_try *t, dlk_redis_on_answer *answer) {
  t->step = DLK_REDIS_SEEDING;
  t->call.args = seed_args;
  t->call.answer = answer;
  t->call.req.each = NULL;
  dlk_redis_call_script(&t->call, DLK_REDIS_SEED);
}

static void seed(struct dlk_redis_try *t) {
  ask_seed(t, seeded);
}

/* ---- the first attempt ---- */

static void try_args(struct dlk_redis_call *call, struct dlk_buf *out) {
  struct dlk_redis_try *t = dlk_redis_try_by(call);
  struct dlk_redis_hold *h = dlk_redis_try_hold(t);
  struct dlk_redis_name name;
  (void)dlk_redis_names_of(&t->store->names, &name, call->key, call->key_len);
  dlk_buf_add(out, "*1\r\n$5\r\nMULTI\r\n*6\r\n$3\r\nSET\r\n", 28);
  dlk_redis_put_name(out, &name, DLK_REDIS_LOCK);
  dlk_redis_put_token(out, &h->token);
  dlk_buf_add(out, "$2\r\nNX\r\n$2\r\nPX\r\n", 16);
  dlk_redis_put_int(out, dlk_to_ms(t->op->lease->ttl));
  dlk_buf_add(out, "*2\r\n$4\r\nINCR\r\n", 14);
  dlk_redis_put_name(out, &name, DLK_REDIS_FENCE);
  dlk_buf_add(out, "*1\r\n$4\r\nEXEC\r\n", 14);
}

/* A MULTI that was refused. */
static void each(struct dlk_redis_req *req, unsigned index,
                 const redisReply *reply) {
  struct dlk_redis_call *call = DLK_CONTAINER(req, struct dlk_redis_call, req);
  struct dlk_redis_try *t = dlk_redis_try_by(call);
  if (call->as_plain && index == 0 && reply->type == REDIS_REPLY_ERROR)
    t->alone = true;
}

/* ---- in vain ---- */

static void holder_args(struct dlk_redis_call *call, struct dlk_buf *out) {
  struct dlk_redis_name name;
  (void)dlk_redis_names_of(&call->store->names, &name, call->key,
                           call->key_len);
  dlk_redis_put_array(out, 2);
  dlk_redis_put(out, "GET", 3);
  dlk_redis_put_name(out, &name, DLK_REDIS_LOCK);
}

/* Without an answer it is busy all the same. */
static void holder_told(struct dlk_redis_call *call,
                        const struct dlk_redis_result *r) {
  struct dlk_redis_try *t = dlk_redis_try_by(call);
  if (r->verdict == DLK_REDIS_GOOD && r->reply->type == REDIS_REPLY_STRING)
    dlk_redis_holder_text(t->op->holder, r->reply->str, r->reply->len);
  if (r->verdict == DLK_REDIS_BAD && r->err->code == DLK_INVALID)
    dlk_redis_done(t, r->err); /* it is no lock at all */
  else
    dlk_redis_done_code(t, DLK_BUSY);
}

/* Whose it is, for the message: SET does not say. Only a try that failed pays
 * for it. */
static void ask_holder(struct dlk_redis_try *t) {
  t->step = DLK_REDIS_TRYING;
  t->call.args = holder_args;
  t->call.answer = holder_told;
  dlk_redis_call_plain(&t->call);
}

/* Somebody else holds it. */
static void occupied(struct dlk_redis_try *t) {
  if (t->op->ending != DLK_OK) {
    dlk_redis_give_up(t);
  } else if (!t->op->wait && t->op->holder[0]) {
    dlk_redis_done_code(t, DLK_BUSY);
  } else if (!t->op->wait) {
    ask_holder(t);
  } else {
    dlk_redis_mark_crowded(t->store, t->op->key, t->op->key_len);
    dlk_redis_queue(t);
  }
}

/* Our INCR made the counter of a key that somebody else holds, which we knew to
 * be there: it is given its time to live, or it would stay for ever. */
static void seeded_in_vain(struct dlk_redis_call *call,
                           const struct dlk_redis_result *r) {
  struct dlk_redis_try *t = dlk_redis_try_by(call);
  if (r->verdict != DLK_REDIS_GOOD)
    no_answer(t, r, try_once);
  else
    occupied(t);
}

/* False: there was none, and the op goes on or is over. */
static bool answered(struct dlk_redis_try *t,
                     const struct dlk_redis_result *r) {
  if (r->verdict != DLK_REDIS_GOOD) {
    no_answer(t, r, try_once);
    return false;
  }
  dlk_redis_answered(t);
  return true;
}

/* The answer was none; `error`: what may be the server's own word for it. */
static void odd(struct dlk_redis_try *t, const redisReply *error) {
  struct dlk_error err;
  dlk_redis_new_token(t, true);
  if (error && error->type == REDIS_REPLY_ERROR)
    dlk_redis_fault_error(&err, error->str, t->store->conf.shown);
  else
    dlk_redis_odd(&err, t->store->conf.shown);
  dlk_redis_done(t, &err);
}

static void tried(struct dlk_redis_try *t, const redisReply *exec) {
  bool pair = exec->type == REDIS_REPLY_ARRAY && exec->elements == 2;
  const redisReply *set = pair ? exec->element[0] : NULL;
  const redisReply *incr = pair ? exec->element[1] : NULL;
  bool number = pair && incr->type == REDIS_REPLY_INTEGER;
  bool seeded = number && incr->integer >= DLK_REDIS_FENCE_SEEDED;
  if (pair && set->type == REDIS_REPLY_NIL) {
    dlk_redis_fence_contended(&t->store->fences, t->call.key, t->call.key_len);
    if (number && !seeded)
      ask_seed(t, seeded_in_vain);
    else
      occupied(t);
  } else if (!number || set->type != REDIS_REPLY_STATUS) {
    odd(t, incr);
  } else if (seeded) {
    dlk_redis_granted(t, incr->integer, t->call.req.sent, 0);
  } else {
    t->op->lease->sent = t->call.req.sent;
    seed(t);
  }
}

/* A try by the script. */
static void script_args(struct dlk_redis_call *call, struct dlk_buf *out) {
  struct dlk_redis_try *t = dlk_redis_try_by(call);
  const struct dlk_lease *lease = t->op->lease;
  dlk_redis_put_token(out, &dlk_redis_try_hold(t)->token);
  dlk_redis_put_int(out, dlk_to_ms(lease->ttl));
  dlk_redis_put_int(out, lease->want.units);
  dlk_redis_put_int(out, lease->want.cap);
  dlk_redis_put_text(out, "try");
  dlk_redis_put_int(out, 0);
  dlk_redis_put_int(out, 0);
  dlk_redis_put_text(out, "");
  dlk_redis_put_int(out, 0);
}

static void script_tried(struct dlk_redis_call *call,
                         const struct dlk_redis_result *r) {
  struct dlk_redis_try *t = dlk_redis_try_by(call);
  if (!answered(t, r))
    return;
  if (call->as_plain) {
    tried(t, r->reply);
    return;
  }
  int64_t fence = dlk_redis_int(r->reply, 1, -1);
  const char *word = dlk_redis_word(r->reply);
  if (strcmp(word, "got") == 0 && fence > 0) {
    dlk_redis_granted(t, fence, call->req.sent, 0);
    return;
  }
  if (strcmp(dlk_redis_word(r->reply), "limit") == 0) {
    dlk_redis_other_limit(t);
    return;
  }
  if (strcmp(dlk_redis_word(r->reply), "busy") != 0 || r->reply->elements < 6) {
    odd(t, NULL);
    return;
  }
  if (r->reply->element[5]->type == REDIS_REPLY_STRING)
    dlk_redis_holder_text(t->op->holder, r->reply->element[5]->str,
                          r->reply->element[5]->len);
  occupied(t);
}

static void try_once(struct dlk_redis_try *t) {
  const struct dlk_op *op = t->op;
  /* What is to be published is stored with the hold, by the script. */
  bool exclusive = op->lease->want.units == 0 && !op->lease->value;
  if (op->wait && (!exclusive || t->order[0] || op->parked ||
                   dlk_redis_is_crowded(t->store, op->key, op->key_len))) {
    dlk_redis_queue(t);
    return;
  }
  t->step = DLK_REDIS_TRYING;
  t->alone = false;
  t->call.req.each = each;
  t->call.args = script_args;
  t->call.answer = script_tried;
  dlk_redis_call_either(&t->call, DLK_REDIS_ACQUIRE,
                        exclusive ? try_args : NULL);
}

void dlk_redis_acquire(struct dlk_redis_try *t) {
  struct dlk_redis_hold *h = dlk_redis_try_hold(t);
  h->lease = t->op->lease;
  h->waiting = t->op;
  h->call.store = t->store;
  h->call.key = t->op->lease->key;
  h->call.key_len = t->op->lease->key_len;
  dlk_redis_draw_token(t);
  try_once(t);
}

void dlk_redis_acquire_cancel(struct dlk_redis_try *t) {
  if (t->step != DLK_REDIS_TRYING && t->step != DLK_REDIS_SEEDING) {
    dlk_redis_queue_cancel(t);
    return;
  }
  if (!dlk_redis_call_withdraw(&t->call))
    return; /* its answer ends the op */
  if (t->step == DLK_REDIS_SEEDING)
    dlk_redis_new_token(t, true);
  dlk_redis_give_up(t);
}
