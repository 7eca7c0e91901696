/* Releasing.
 *
 * - A release is repeatable: it only ever touches its own token. If its reply
 *   was lost it is sent again; a token that is then not there any more was
 *   released by the first one, provided that our own deadline had not passed
 *   when we first asked. Otherwise it counts as lost.
 * - An uncontended release is one small script; only when it says that the
 *   token is not there, or that somebody queues, the full script follows. On
 *   a key that others queued for lately the full script goes first. */
#include "store/redis/recipe/release.h"

#include "store/redis/op/orphan.h"
#include "store/redis/wire/codec.h"
#include "store/redis/wire/reply.h"

static void leave(struct dlk_redis_try *t);

static int64_t rest_of(struct dlk_redis_try *t) {
  const struct dlk_redis_hold *h = dlk_redis_try_hold(t);
  int64_t min = t->op->lease->min_hold;
  return min <= 0 ? 0 : h->granted + min - dlk_redis_now(t->store);
}

static void args_leave(struct dlk_redis_call *call, struct dlk_buf *out) {
  struct dlk_redis_try *t = dlk_redis_try_by(call);
  dlk_redis_leave_args(out, &dlk_redis_try_hold(t)->token, rest_of(t));
}

static void args_token(struct dlk_redis_call *call, struct dlk_buf *out) {
  struct dlk_redis_try *t = dlk_redis_try_by(call);
  dlk_redis_put_token(out, &dlk_redis_try_hold(t)->token);
}

/* Sent or not, the server will be told as long as it may keep the token. */
static void release_later(struct dlk_redis_try *t) {
  struct dlk_redis_hold *h = dlk_redis_try_hold(t);
  int64_t until = dlk_time_add(dlk_redis_now(t->store), t->op->lease->ttl);
  if (rest_of(t) > 0)
    return;
  if (until < h->asked)
    until = h->asked;
  dlk_redis_orphan(t->store, t->op->key, t->op->key_len, &h->token, until);
}

static void release_failed(struct dlk_redis_try *t,
                           const struct dlk_redis_result *r) {
  if (r->verdict == DLK_REDIS_UNSURE)
    t->unsure = true;
  bool over = r->verdict == DLK_REDIS_BAD || !dlk_redis_patient(t);
  if (over && !t->store->stopping)
    release_later(t);
  dlk_redis_retry(t, r, leave);
}

static void left(struct dlk_redis_call *call,
                 const struct dlk_redis_result *r) {
  struct dlk_redis_try *t = dlk_redis_try_by(call);
  if (r->verdict != DLK_REDIS_GOOD) {
    release_failed(t, r);
    return;
  }
  if (dlk_redis_int(r->reply, 0, 0) == 1)
    t->ours = true;
  if (dlk_redis_int(r->reply, 1, 0) == 1) { /* more dead waiters */
    leave(t);
    return;
  }
  bool first_did_it =
      t->unsure && t->op->started < dlk_redis_try_hold(t)->until;
  if (t->ours || first_did_it)
    dlk_redis_done(t, NULL);
  else
    dlk_redis_done_code(t, DLK_LOST);
}

static void leave(struct dlk_redis_try *t) {
  t->step = DLK_REDIS_LEAVING;
  t->call.args = args_leave;
  t->call.answer = left;
  dlk_redis_call_script(&t->call, DLK_REDIS_LEAVE);
}

static void released(struct dlk_redis_call *call,
                     const struct dlk_redis_result *r) {
  struct dlk_redis_try *t = dlk_redis_try_by(call);
  if (r->verdict != DLK_REDIS_GOOD) {
    release_failed(t, r);
  } else if (dlk_redis_number(r->reply, 0) == 1) {
    dlk_redis_done(t, NULL);
  } else {
    if (dlk_redis_number(r->reply, 0) == -2)
      dlk_redis_mark_crowded(t->store, t->op->key, t->op->key_len);
    leave(t);
  }
}

void dlk_redis_release(struct dlk_redis_try *t) {
  struct dlk_redis *s = t->store;
  struct dlk_redis_hold *h = dlk_redis_try_hold(t);
  dlk_redis_token_drop(&s->tokens, &h->token);
  bool crowded = h->crowded || h->noted || t->op->lease->value ||
                 dlk_redis_is_crowded(s, t->op->key, t->op->key_len);
  if (t->op->lease->want.units != 0 || crowded || rest_of(t) > 0) {
    leave(t);
    return;
  }
  t->call.args = args_token;
  t->call.answer = released;
  dlk_redis_call_script(&t->call, DLK_REDIS_RELEASE);
}

void dlk_redis_release_cancel(struct dlk_redis_try *t) {
  if (!dlk_redis_call_withdraw(&t->call))
    return; /* its answer ends the op */
  release_later(t);
  dlk_redis_give_up(t);
}
