/* An operation is a row of requests, one at a time. The recipe reads answers;
 * rules.c has what a missing one means, and only this file applies it.
 *
 * A caller that gives up is told the last trouble.
 * - Any answer shows that the server is there, and ends a trouble.
 * - Missing replicas end only with an answer that enough replicas have. Until
 *   then nobody that counts on them can have got the lock, and a holder has it
 *   for a moment only, as we had.
 * - Our own orphan as the holder ends no trouble.
 *
 * Each operation ends here, once: out of its list, and without a token in the
 * map when it came to nothing. */
#include "store/redis/op/try.h"

#include <hiredis/hiredis.h>

#include "store/redis/op/subscription.h"
#include "store/redis/wire/errors.h"

/* ---- the end ---- */

void dlk_redis_done(struct dlk_redis_try *t, const struct dlk_error *err) {
  struct dlk_redis *s = t->store;
  const struct dlk_error *trouble = t->trouble; /* err may be that */
  t->trouble = NULL;
  dlk_list_remove(&t->entry);
  s->host->timer_clear(s->host, &t->timer);
  struct dlk_lease *lease = t->op->lease;
  if (err && lease && (t->op->kind == DLK_OP_ACQUIRE || err->code == DLK_LOST))
    dlk_redis_token_drop(&s->tokens, &dlk_redis_hold_of(lease)->token);
  dlk_redis_subscription_rest(s);
  s->host->done(s->host, t->op, err);
  dlk_error_drop(&trouble);
}

void dlk_redis_done_code(struct dlk_redis_try *t, enum dlk_code code) {
  struct dlk_error err = {.code = code};
  dlk_redis_done(t, &err);
}

void dlk_redis_finish(struct dlk_redis_try *t, struct dlk_value *v) {
  struct dlk_error err;
  t->op->result = v;
  if (!v)
    dlk_error_set(&err, DLK_UNAVAILABLE, "out of memory");
  dlk_redis_done(t, v ? NULL : &err);
}

void dlk_redis_done_odd(struct dlk_redis_try *t) {
  struct dlk_error err;
  dlk_redis_odd(&err, t->store->conf.shown);
  dlk_redis_done(t, &err);
}

void dlk_redis_give_up(struct dlk_redis_try *t) {
  enum dlk_code code = t->op->ending;
  if (code != DLK_TIMEOUT && code != DLK_UNAVAILABLE)
    dlk_redis_done_code(t, code);
  else if (t->trouble && !t->over)
    dlk_redis_done(t, t->trouble);
  else
    dlk_redis_done_code(t, t->answered ? code : DLK_UNAVAILABLE);
}

void dlk_redis_trouble(struct dlk_redis_try *t, const struct dlk_error *why) {
  dlk_error_drop(&t->trouble);
  t->trouble = dlk_error_keep(why);
  t->scarce = t->over = false;
}

/* ---- no answer ---- */

/* The caller waits, so the server may come later. */
static bool waits(const struct dlk_redis_try *t) {
  return t->op->wait || t->op->kind == DLK_OP_CHANGE;
}

static bool repeats(struct dlk_redis_try *t, enum dlk_redis_until until,
                    bool unsure_before) {
  if (t->op->ending != DLK_OK || t->store->stopping)
    return false;
  return until == DLK_REDIS_WANTED ||
         (until == DLK_REDIS_WAITING && waits(t)) ||
         (until == DLK_REDIS_ONCE && !unsure_before);
}

/* Its release began, or it was seen to be gone. min_hold may keep the token on
 * the server, unchanged. */
static bool lease_is_over(struct dlk_redis_try *t) {
  return !dlk_redis_try_hold(t)->token.node.queued;
}

static void warn(struct dlk_redis_try *t) {
  struct dlk_error err;
  char key[DLK_QUOTED_MAX];
  dlk_error_set(&err, DLK_UNAVAILABLE,
                "%s: '%s' went away before it answered; %s may have been "
                "done, look before you repeat it",
                dlk_quote(key, t->op->key, t->op->key_len),
                t->store->conf.shown, t->step->deed);
  dlk_redis_done(t, &err);
}

static void tell(struct dlk_redis_try *t, const struct dlk_error *err) {
  enum dlk_op_kind kind = t->op->kind;
  bool waited = kind == DLK_OP_ACQUIRE || kind == DLK_OP_CHANGE;
  if (!err || (waited && t->op->ending != DLK_OK))
    dlk_redis_give_up(t);
  else
    dlk_redis_done(t, t->trouble ? t->trouble : err);
}

void dlk_redis_no_answer(struct dlk_redis_try *t,
                         enum dlk_redis_verdict verdict,
                         const struct dlk_error *err) {
  const struct dlk_redis_step *step = t->step;
  struct dlk_redis_rule rule = dlk_redis_rule(step->aim, verdict);
  bool unsure_before = t->unsure;
  t->unsure = unsure_before || verdict == DLK_REDIS_UNSURE;
  if (err)
    dlk_redis_trouble(t, err);
  t->scarce = t->scarce || verdict == DLK_REDIS_SCARCE;
  if (rule.told == DLK_REDIS_SAY_LOST && lease_is_over(t)) {
    dlk_redis_done_code(t, DLK_LOST);
  } else if (repeats(t, rule.until, unsure_before)) {
    dlk_redis_do *again =
        rule.then == DLK_REDIS_NEW_TOKEN ? step->anew : step->again;
    if (again)
      again(t);
    else
      dlk_redis_send(t, step);
  } else if (rule.then == DLK_REDIS_LEAVE_NOW && t->placed &&
             !t->store->stopping) {
    step->leave(t);
  } else if (rule.then == DLK_REDIS_MAY_BE_DONE) {
    warn(t);
  } else {
    bool stands = t->placed || t->unsure;
    if (rule.then != DLK_REDIS_LET_BE && stands && step->back)
      step->back(t);
    tell(t, err);
  }
}

void dlk_redis_scarce(struct dlk_redis_try *t) {
  struct dlk_error err;
  char key[DLK_QUOTED_MAX];
  dlk_error_set(&err, DLK_UNAVAILABLE,
                "%s: %s: %u of %u replicas had it in time (wait_replicas, "
                "wait_timeout)",
                dlk_quote(key, t->op->key, t->op->key_len),
                t->store->conf.shown, t->call.have, t->call.wanted);
  t->placed = true;
  dlk_redis_no_answer(t, DLK_REDIS_SCARCE, &err);
}

/* ---- requests ---- */

static void write_args(struct dlk_redis_call *call, struct dlk_buf *out) {
  struct dlk_redis_try *t = DLK_CONTAINER(call, struct dlk_redis_try, call);
  if (t->step->args)
    t->step->args(t, out);
}

/* Of what stood in the way. */
static bool shows_an_end(const struct dlk_redis_try *t) {
  bool enough = t->call.req.durable && !t->call.scarce;
  return enough || !t->scarce;
}

static void on_answer(struct dlk_redis_call *call,
                      const struct dlk_redis_result *r) {
  struct dlk_redis_try *t = DLK_CONTAINER(call, struct dlk_redis_try, call);
  if (r->verdict == DLK_REDIS_GOOD) {
    t->answered = true;
    if (shows_an_end(t))
      t->over = true;
    t->step->answer(t, r->reply);
    return;
  }
  t->placed = t->placed || r->begun;
  dlk_redis_no_answer(t, r->verdict, r->err);
}

void dlk_redis_await(struct dlk_redis_try *t,
                     const struct dlk_redis_step *step) {
  t->step = step;
}

void dlk_redis_send(struct dlk_redis_try *t,
                    const struct dlk_redis_step *step) {
  t->step = step;
  t->call.args = write_args;
  t->call.answer = on_answer;
  t->call.req.only_once =
      dlk_redis_rule(step->aim, DLK_REDIS_UNSURE).then == DLK_REDIS_MAY_BE_DONE;
  dlk_redis_call_send(&t->call, step->script);
}

/* A caller that leaves between two attempts to connect is told the refusal of
 * the last one. */
static const struct dlk_error *refused(const struct dlk_redis_try *t) {
  enum dlk_code code = t->op->ending;
  bool late = code == DLK_TIMEOUT || code == DLK_UNAVAILABLE;
  return late && !t->answered ? t->store->link->refused : NULL;
}

void dlk_redis_cancel(struct dlk_redis_try *t) {
  if (!t->call.busy)
    dlk_redis_no_answer(t, DLK_REDIS_WITHDRAWN, NULL);
  else if (dlk_redis_call_withdraw(&t->call))
    dlk_redis_no_answer(t, DLK_REDIS_WITHDRAWN, refused(t));
}
