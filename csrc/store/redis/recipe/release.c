/* Releasing.
 *
 * I1 A release touches only its own token, so it may be repeated.
 * I2 Reply lost, token gone at the second request: the first one released it,
 *    if our deadline had not passed when we first asked. Else it counts as
 *    lost.
 * I3 release.lua suffices for an exclusive hold without notes on a key without
 *    a queue. leave.lua follows where that finds no token, or a queue.
 *
 * A listener hears of a late revocation from leave.lua. Otherwise the mark
 * goes with the ttl, and means no other token. */
#include "store/redis/recipe/release.h"

#include <hiredis/hiredis.h>

#include "store/redis/op/orphan.h"
#include "store/redis/recipe/attach.h"
#include "store/redis/recipe/hold.h"
#include "store/redis/wire/codec.h"
#include "store/redis/wire/reply.h"

static const struct dlk_redis_step leaving;

static int64_t rest_of(struct dlk_redis_try *t) {
  return t->op->unused ? 0
                       : dlk_redis_min_left(t->store, dlk_redis_try_hold(t));
}

static void leave_args(struct dlk_redis_try *t, struct dlk_buf *out) {
  const struct dlk_redis_hold *h = dlk_redis_try_hold(t);
  int64_t rest = rest_of(t);
  if (!h->listens || rest > 0) {
    dlk_redis_leave_args(out, &h->token, rest);
    return;
  }
  dlk_redis_put_token(out, &h->token);
  dlk_redis_put_int(out, -1);
}

/* Sent or not, the server will be told as long as it may keep the token. */
static void release_later(struct dlk_redis_try *t) {
  struct dlk_redis_hold *h = dlk_redis_try_hold(t);
  int64_t until = dlk_time_add(dlk_redis_now(t->store), t->op->lease->ttl);
  if (rest_of(t) > 0)
    return;
  if (until < h->server_max_end)
    until = h->server_max_end;
  dlk_redis_orphan(t->store, t->op->key, t->op->key_len, &h->token, until);
}

static void left(struct dlk_redis_try *t, const redisReply *reply) {
  if (dlk_redis_number(reply, 0) == 1)
    t->release.ours = true;
  if (dlk_redis_int(reply, 3, 0) == 1)
    t->store->host->revoked(t->store->host, t->op->lease);
  if (dlk_redis_int(reply, 1, 0) == 1) { /* more dead waiters */
    dlk_redis_send(t, &leaving);
    return;
  }
  bool first_did_it =
      t->unsure && t->op->started < dlk_redis_try_hold(t)->server_min_end;
  if (t->release.ours || first_did_it)
    dlk_redis_done(t, NULL);
  else
    dlk_redis_done_code(t, DLK_LOST);
}

static const struct dlk_redis_step leaving = {.aim = DLK_REDIS_TO_RELEASE,
                                              .script = DLK_REDIS_LEAVE,
                                              .args = leave_args,
                                              .answer = left,
                                              .back = release_later};

static void leave(struct dlk_redis_try *t) {
  dlk_redis_send(t, &leaving);
}

static void token_args(struct dlk_redis_try *t, struct dlk_buf *out) {
  dlk_redis_put_token(out, &dlk_redis_try_hold(t)->token);
}

static void released(struct dlk_redis_try *t, const redisReply *reply) {
  if (dlk_redis_number(reply, 0) == 1) {
    dlk_redis_done(t, NULL);
    return;
  }
  if (dlk_redis_number(reply, 0) == -2)
    dlk_redis_mark_crowded(t->store, t->op->key, t->op->key_len);
  leave(t);
}

static const struct dlk_redis_step releasing = {.aim = DLK_REDIS_TO_RELEASE,
                                                .script = DLK_REDIS_RELEASE,
                                                .args = token_args,
                                                .answer = released,
                                                .again = leave,
                                                .back = release_later};

void dlk_redis_release(struct dlk_redis_try *t) {
  struct dlk_redis *s = t->store;
  struct dlk_redis_hold *h = dlk_redis_try_hold(t);
  dlk_redis_token_drop(&s->tokens, &h->token);
  if (t->op->text_len > 0) {
    dlk_redis_undo_attach(t);
    dlk_redis_done(t, NULL);
    return;
  }
  bool crowded = h->crowded || h->noted || h->listens || t->op->lease->value ||
                 s->max_ttl > 0 ||
                 dlk_redis_is_crowded(s, t->op->key, t->op->key_len);
  t->placed = true;
  t->call.holds = rest_of(t);
  t->call.req.narrows = t->op->lease->want.units == 0 && t->call.holds <= 0;
  if (t->op->lease->want.units != 0 || crowded || t->call.holds > 0)
    leave(t);
  else
    dlk_redis_send(t, &releasing);
}
