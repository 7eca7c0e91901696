/* What one does with a lease: renew, extend, release, hand on. (Detach and
 * attach: attach.c.)
 *
 * - A renewal never makes a hold: the script extends what carries our token
 *   and otherwise says so. Renewals of one batch leave in one write.
 * - A renewal never takes time away; an extension may (and a renewal after the
 *   server's clock was seen to have stepped back), and is numbered. What
 *   is written later carries the number of the last one. So where the server
 *   may not be told to drop an old connection, a renewal that lingers on it
 * does not cut what was extended since, and an extension that lingers (also one
 *   that its caller was told nothing good of) does nothing once any later
 *   request was executed. One that comes before all later ones finds the
 *   holder expecting it: the engine counts with the shorter time until a
 *   request that was sent after it is answered.
 * - A release is repeatable: it only ever touches its own token. If its reply
 *   was lost it is sent again; a token that is then not there any more was
 *   released by the first one, provided that our own deadline had not passed
 *   when we first asked. Otherwise it counts as lost.
 * - An uncontended release is one small script; only when it says that the
 *   token is not there, or that somebody queues, the full script follows. On
 *   a key that others queued for lately the full script goes first.
 * - While a renewal is under way its lease is not reported as lost by a
 *   message: the engine must hear one answer to it. That answer then is the
 *   loss, also if the renewal came to the server before the break. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/redis/op/machine.h"

static struct dlk_redis_hold *hold_of(struct dlk_redis_try *t) {
  return dlk_redis_hold_of(t->op->lease);
}

static struct dlk_redis_try *try_of(struct dlk_redis_call *call) {
  return DLK_CONTAINER(call, struct dlk_redis_try, call);
}

int64_t dlk_redis_number(const redisReply *reply, int64_t none) {
  if (reply->type == REDIS_REPLY_ARRAY)
    return dlk_redis_int(reply, 0, none);
  return reply->type == REDIS_REPLY_INTEGER ? reply->integer : none;
}

/* Its lease's release began, or it was seen to be gone. min_hold may keep the
 * token on the server, and that is not to be changed any more. */
static bool is_over(struct dlk_redis_try *t) {
  enum dlk_op_kind kind = t->op->kind;
  bool changes = kind == DLK_OP_EXTEND || kind == DLK_OP_DETACH ||
                 kind == DLK_OP_DOWNGRADE;
  return changes && !hold_of(t)->node.queued;
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

/* ---- release ---- */

void dlk_redis_leave_args(struct dlk_buf *out, const char *token, size_t len,
                          int64_t rest) {
  dlk_redis_put(out, token, len);
  dlk_redis_put_int(out, rest > 0 ? dlk_to_ms(rest) : 0);
}

static void leave(struct dlk_redis_try *t);

static int64_t rest_of(struct dlk_redis_try *t) {
  const struct dlk_redis_hold *h = hold_of(t);
  int64_t min = t->op->lease->min_hold;
  return min <= 0 ? 0 : h->granted + min - dlk_redis_now(t->store);
}

static void args_leave(struct dlk_redis_call *call, struct dlk_buf *out) {
  struct dlk_redis_try *t = try_of(call);
  dlk_redis_leave_args(out, hold_of(t)->token, hold_of(t)->token_len,
                       rest_of(t));
}

static void args_token(struct dlk_redis_call *call, struct dlk_buf *out) {
  struct dlk_redis_try *t = try_of(call);
  dlk_redis_put(out, hold_of(t)->token, hold_of(t)->token_len);
}

/* Sent or not, the server will be told as long as it may keep the token. */
static void release_later(struct dlk_redis_try *t) {
  struct dlk_redis_hold *h = hold_of(t);
  int64_t until = dlk_time_add(dlk_redis_now(t->store), t->op->lease->ttl);
  if (rest_of(t) > 0)
    return;
  if (until < h->asked)
    until = h->asked;
  dlk_redis_orphan(t->store, t->op->key, t->op->key_len, h->token, h->token_len,
                   until);
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
  struct dlk_redis_try *t = try_of(call);
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
  bool first_did_it = t->unsure && t->op->started < hold_of(t)->until;
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
  struct dlk_redis_try *t = try_of(call);
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
  struct dlk_redis_hold *h = hold_of(t);
  dlk_redis_token_drop(s, h);
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

/* ---- renewal ---- */

/* The server's clock against ours: what was left of the hold there should be
 * what we think was left. Said once a minute at most. A hold that would last
 * for longer is cut by its next renewal, or it would outlive a dead holder. */
static void compare_clocks(struct dlk_redis *s, struct dlk_redis_hold *h,
                           int64_t ttl, int64_t left) {
  int64_t now = dlk_redis_now(s);
  int64_t at_least = h->until - now;
  int64_t at_most = (ttl > h->asked - now ? ttl : h->asked - now) + DLK_SEC;
  h->cut = left > at_most;
  if ((left >= at_least - DLK_SEC && !h->cut) ||
      (s->clock_warned && now - s->clock_warned < 60 * DLK_SEC))
    return;
  s->clock_warned = now;
  char text[200];
  snprintf(text, sizeof text,
           "%s: the server's clock stepped: a lock had %lld ms left there, "
           "at least %lld ms by ours; locks may end early or late",
           s->conf.shown, (long long)(left / DLK_MS),
           (long long)(at_least / DLK_MS));
  s->host->event(s->host, "clock", text);
}

int64_t dlk_redis_held_ms(struct dlk_redis *s, const struct dlk_redis_hold *h) {
  return h->granted ? (dlk_redis_now(s) - h->granted) / DLK_MS : 0;
}

void dlk_redis_renew_args(struct dlk_redis *s, struct dlk_redis_hold *h,
                          int64_t ttl, bool exact, struct dlk_buf *out) {
  if (exact)
    h->number++;
  dlk_redis_put(out, h->token, h->token_len);
  dlk_redis_put_int(out, ttl ? dlk_to_ms(ttl) : 0);
  dlk_redis_put_int(out, h->lease->fence);
  dlk_redis_put_int(out, dlk_redis_held_ms(s, h));
  dlk_redis_put_int(out, h->number);
  dlk_redis_put_int(out, exact);
}

bool dlk_redis_extended(struct dlk_redis *s, struct dlk_redis_hold *h,
                        int64_t left, int64_t ttl, int64_t sent) {
  if (left < 0) {
    dlk_redis_token_drop(s, h);
    return false;
  }
  if (h->until)
    compare_clocks(s, h, h->lease->ttl, dlk_from_ms(left));
  h->until = dlk_lease_deadline(sent, ttl);
  h->noted = true;
  return true;
}

static void renewal_args(struct dlk_redis_call *call, struct dlk_buf *out) {
  struct dlk_redis_hold *h = DLK_CONTAINER(call, struct dlk_redis_hold, call);
  dlk_redis_renew_args(call->store, h, h->lease->ttl, h->cut, out);
}

static void renewed(struct dlk_redis_call *call,
                    const struct dlk_redis_result *r) {
  struct dlk_redis_hold *h = DLK_CONTAINER(call, struct dlk_redis_hold, call);
  struct dlk_redis *s = call->store;
  struct dlk_lease *lease = h->lease;
  if (h->broken) {
    dlk_redis_broken(s, h);
    return;
  }
  if (r->verdict == DLK_REDIS_GOOD && dlk_redis_int(r->reply, 1, 0) == 1)
    s->host->revoked(s->host, lease);
  if (r->verdict != DLK_REDIS_GOOD)
    s->host->renew_failed(s->host, lease);
  else if (dlk_redis_extended(s, h, dlk_redis_number(r->reply, -1), lease->ttl,
                              call->req.sent))
    s->host->renewed(s->host, lease, call->req.sent);
  else
    s->host->lost(s->host, lease, "it expired or was broken");
}

void dlk_redis_renew(void *store, struct dlk_lease *const *leases,
                     size_t count) {
  struct dlk_redis *s = store;
  for (size_t i = 0; i < count; i++) {
    struct dlk_redis_hold *h = dlk_redis_hold_of(leases[i]);
    h->call.holds = leases[i]->ttl;
    h->call.in_order = true; /* an extension may be behind it */
    h->call.args = renewal_args;
    h->call.answer = renewed;
    dlk_redis_call_script(&h->call, DLK_REDIS_RENEW);
  }
  s->link->listen(s->link);
}

/* The token stays what it is: the server hears nothing of this. What inspect
 * shows of the hold is corrected by the next renewal. */
void dlk_redis_hand_over(void *store, struct dlk_lease *from,
                         struct dlk_lease *to) {
  struct dlk_redis *s = store;
  struct dlk_redis_hold *a = dlk_redis_hold_of(from);
  struct dlk_redis_hold *b = dlk_redis_hold_of(to);
  b->lease = to;
  b->call.store = s;
  b->call.key = to->key;
  b->call.key_len = to->key_len;
  b->until = a->until;
  b->asked = a->asked;
  b->granted = dlk_redis_now(s);
  b->crowded = a->crowded;
  b->noted = a->noted;
  b->number = a->number;
  dlk_redis_token_move(s, a, b);
}

void dlk_redis_broken(struct dlk_redis *s, struct dlk_redis_hold *h) {
  h->broken = true; /* for good: a token never holds twice */
  if (h->call.busy) {
    h->lease->spare = 0; /* nor is it handed over meanwhile */
    return;
  }
  dlk_redis_token_drop(s, h);
  s->host->lost(s->host, h->lease, "it was broken by an administrator");
}

/* ---- extend ---- */

static void extend_args(struct dlk_redis_call *call, struct dlk_buf *out) {
  struct dlk_redis_try *t = try_of(call);
  dlk_redis_renew_args(t->store, hold_of(t), t->op->ttl, true, out);
}

static void extend_done(struct dlk_redis_call *call,
                        const struct dlk_redis_result *r) {
  struct dlk_redis_try *t = try_of(call);
  if (r->verdict != DLK_REDIS_GOOD) {
    dlk_redis_retry(t, r, dlk_redis_extend);
  } else if (dlk_redis_extended(t->store, hold_of(t),
                                dlk_redis_number(r->reply, -1), t->op->ttl,
                                call->req.sent)) {
    t->op->lease->sent = call->req.sent;
    dlk_redis_done(t, NULL);
  } else {
    dlk_redis_done_code(t, DLK_LOST);
  }
}

void dlk_redis_extend(struct dlk_redis_try *t) {
  struct dlk_redis_hold *h = hold_of(t);
  int64_t until = dlk_time_add(dlk_redis_now(t->store), t->op->ttl);
  if (h->asked < until)
    h->asked = until;
  t->call.holds = t->op->ttl;
  t->call.args = extend_args;
  t->call.answer = extend_done;
  dlk_redis_call_script(&t->call, DLK_REDIS_RENEW);
}
