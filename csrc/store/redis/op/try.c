/* Every operation ends here, once: out of whatever list it stands in, with its
 * token no longer heard when it came to nothing. */
#include "store/redis/op/try.h"

#include "store/redis/op/subscription.h"
#include "store/redis/wire/errors.h"

void dlk_redis_done(struct dlk_redis_try *t, const struct dlk_error *err) {
  struct dlk_redis *s = t->store;
  const struct dlk_error *trouble = t->trouble; /* err may be that */
  t->trouble = NULL;
  t->step = DLK_REDIS_IDLE;
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
  else if (t->trouble)
    dlk_redis_done(t, t->trouble);
  else
    dlk_redis_done_code(t, t->answered ? code : DLK_UNAVAILABLE);
}

void dlk_redis_answered(struct dlk_redis_try *t) {
  t->answered = true;
  dlk_error_drop(&t->trouble);
}

void dlk_redis_trouble(struct dlk_redis_try *t, const struct dlk_error *why) {
  dlk_error_drop(&t->trouble);
  t->trouble = dlk_error_keep(why);
}

bool dlk_redis_patient(struct dlk_redis_try *t) {
  struct dlk_redis *s = t->store;
  const struct dlk_op *op = t->op;
  if (op->ending != DLK_OK || s->stopping)
    return false;
  switch (op->kind) {
  case DLK_OP_RELEASE:
  case DLK_OP_EXTEND:
  case DLK_OP_ATTACH:
  case DLK_OP_DETACH:
  case DLK_OP_DOWNGRADE:
    return true;
  default:
    break;
  }
  bool waits = op->wait || op->kind == DLK_OP_CHANGE;
  return waits && (s->link->served ||
                   dlk_redis_now(s) < op->started + s->conf.connect_timeout);
}

void dlk_redis_withdraw(struct dlk_redis_try *t, enum dlk_redis_script script,
                        dlk_redis_args *encode, dlk_redis_on_answer *answer) {
  if (t->call.busy && !dlk_redis_call_withdraw(&t->call))
    return; /* the answer goes on from there */
  if (!t->joined) {
    dlk_redis_give_up(t);
    return;
  }
  t->step = DLK_REDIS_LEAVING;
  t->store->host->timer_clear(t->store->host, &t->timer);
  t->call.args = encode;
  t->call.answer = answer;
  dlk_redis_call_script(&t->call, script);
}

/* Its lease's release began, or it was seen to be gone. min_hold may keep the
 * token on the server, and that is not to be changed any more. */
static bool is_over(struct dlk_redis_try *t) {
  enum dlk_op_kind kind = t->op->kind;
  bool changes = kind == DLK_OP_EXTEND || kind == DLK_OP_DETACH ||
                 kind == DLK_OP_DOWNGRADE;
  return changes && !dlk_redis_try_hold(t)->token.node.queued;
}

void dlk_redis_retry(struct dlk_redis_try *t, const struct dlk_redis_result *r,
                     void (*again)(struct dlk_redis_try *)) {
  dlk_redis_trouble(t, r->err);
  if (is_over(t))
    dlk_redis_done_code(t, DLK_LOST);
  else if (r->verdict != DLK_REDIS_BAD && dlk_redis_patient(t))
    again(t);
  else
    dlk_redis_done(t, r->err);
}

bool dlk_redis_failed(struct dlk_redis_try *t,
                      const struct dlk_redis_result *r) {
  if (r->verdict == DLK_REDIS_GOOD) {
    t->answered = true;
    return false;
  }
  dlk_redis_trouble(t, r->err);
  bool again = r->verdict == DLK_REDIS_UNSURE && !t->unsure &&
               t->op->ending == DLK_OK && !t->store->stopping;
  t->unsure = true;
  if (again)
    dlk_redis_call_send(&t->call);
  else
    dlk_redis_done(t, r->err);
  return true;
}

bool dlk_redis_unrepeated(struct dlk_redis_try *t,
                          const struct dlk_redis_result *r, const char *what) {
  struct dlk_error err;
  char key[DLK_QUOTED_MAX];
  if (r->verdict == DLK_REDIS_GOOD)
    return false;
  if (r->verdict == DLK_REDIS_UNSURE) {
    dlk_error_set(&err, DLK_UNAVAILABLE,
                  "%s: '%s' went away before it answered; %s may have been "
                  "done, look before you repeat it",
                  dlk_quote(key, t->op->key, t->op->key_len),
                  t->store->conf.shown, what);
    dlk_redis_done(t, &err);
  } else {
    dlk_redis_done(t, r->err);
  }
  return true;
}
