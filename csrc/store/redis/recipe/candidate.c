/* From a new token to the grant. A message for a token of unknown outcome, or
 * that the server forgot, could pass for the grant of a new attempt. So such a
 * token is never asked for again. */
#include "store/redis/recipe/candidate.h"

#include <hiredis/hiredis.h>

#include "store/redis/op/orphan.h"
#include "store/redis/recipe/hold.h"
#include "store/redis/wire/codec.h"
#include "store/redis/wire/reply.h"

void dlk_redis_draw_token(struct dlk_redis_try *t) {
  struct dlk_redis *s = t->store;
  struct dlk_redis_hold *h = dlk_redis_try_hold(t);
  dlk_redis_token_drop(&s->tokens, &h->token);
  dlk_redis_token_make(&s->tokens, s->host, &h->token, h->lease->owner);
  if (t->op->text_len == DLK_REDIS_NAME)
    memcpy(h->token.text, t->op->text, DLK_REDIS_NAME);
  dlk_redis_token_put(&s->tokens, &h->token);
}

void dlk_redis_acquire_args(struct dlk_redis_try *t, struct dlk_buf *out) {
  const struct dlk_lease *lease = t->op->lease;
  dlk_redis_put_token(out, &dlk_redis_try_hold(t)->token);
  dlk_redis_put_int(out, dlk_to_ms(lease->ttl));
  if (t->call.script == DLK_REDIS_TAKE)
    return;
  dlk_redis_put_int(out, lease->want.units);
  dlk_redis_put_int(out, lease->want.cap);
}

/* ---- min_hold ---- */

static void keep_args(struct dlk_redis_try *t, struct dlk_buf *out) {
  dlk_redis_renew_args(t->store, dlk_redis_try_hold(t), t->op->lease->ttl,
                       DLK_REDIS_AT_LEAST, out);
}

static void anew(struct dlk_redis_try *t) {
  t->acquire.got_by->anew(t);
}

/* A token that is gone was broken, or its claim was over. */
static void kept(struct dlk_redis_try *t, const redisReply *reply) {
  bool ours = dlk_redis_number(reply, -1) >= 0;
  if (!ours && t->op->ending != DLK_OK) {
    dlk_redis_give_up(t);
  } else if (!ours) {
    anew(t);
  } else if (t->call.scarce) {
    dlk_redis_scarce(t);
  } else {
    dlk_redis_try_hold(t)->waiting = NULL;
    dlk_redis_done(t, NULL);
  }
}

static const struct dlk_redis_step keeping = {.aim = DLK_REDIS_TO_KEEP,
                                              .script = DLK_REDIS_RENEW,
                                              .args = keep_args,
                                              .answer = kept,
                                              .anew = anew,
                                              .back = dlk_redis_token_back};

/* The server keeps the hold for its min_hold before the grant is told, because
 * the holder may die at once. A place gets no such claim: its waiter may be
 * dead. */
static void keep(struct dlk_redis_try *t) {
  struct dlk_redis_hold *h = dlk_redis_try_hold(t);
  dlk_list_remove(&t->entry);
  t->store->host->timer_clear(t->store->host, &t->timer);
  t->placed = true;
  t->acquire.got_by = t->step;
  t->call.holds = dlk_redis_span(t->store, h, h->lease->ttl);
  h->server_max_end = dlk_time_add(h->granted, t->call.holds);
  dlk_redis_send(t, &keeping);
}

void dlk_redis_granted(struct dlk_redis_try *t, int64_t fence, int64_t sent,
                       int64_t claim) {
  struct dlk_lease *lease = t->op->lease;
  struct dlk_redis_hold *h = dlk_redis_try_hold(t);
  if (t->call.scarce) {
    lease->handoffs.spare = 0;
    dlk_redis_scarce(t);
    return;
  }
  lease->fence = fence;
  lease->sent = sent;
  lease->claim = claim;
  h->granted = dlk_redis_now(t->store);
  h->server_min_end = claim ? claim : dlk_lease_deadline(sent, lease->ttl);
  h->server_epoch = t->store->link->moves;
  DLK_TRACE(h->granted, "redis", "grant", lease->key, lease->key_len,
            "fence %lld, token ..%s", (long long)fence,
            dlk_redis_token_end(&h->token).text);
  if (lease->min_hold > 0) {
    keep(t);
    return;
  }
  h->waiting = NULL;
  dlk_redis_done(t, NULL);
}

/* ---- tokens ---- */

/* A place in a queue lasts for a minute at least. */
static int64_t stands_for(struct dlk_redis_try *t) {
  int64_t ttl = t->op->lease->ttl;
  if (t->placed && t->step->aim == DLK_REDIS_TO_KEEP)
    return t->call.holds;
  return t->placed && ttl < 60 * DLK_SEC ? 60 * DLK_SEC : ttl;
}

void dlk_redis_new_token(struct dlk_redis_try *t) {
  t->placed = t->unsure = false;
  dlk_redis_draw_token(t);
}

void dlk_redis_token_back(struct dlk_redis_try *t) {
  dlk_redis_replace_token(t, NULL);
}

void dlk_redis_replace_token(struct dlk_redis_try *t, dlk_redis_do *first) {
  struct dlk_redis *s = t->store;
  struct dlk_redis_token old = dlk_redis_try_hold(t)->token;
  int64_t span = stands_for(t);
  dlk_redis_new_token(t);
  if (first)
    first(t);
  dlk_redis_orphan(s, t->op->key, t->op->key_len, &old,
                   dlk_time_add(dlk_redis_now(s), span));
}

void dlk_redis_held_by(struct dlk_redis_try *t, const redisReply *value) {
  if (value->type != REDIS_REPLY_STRING)
    return;
  if (dlk_redis_is_orphan(t->store, value->str, value->len)) {
    t->op->holder[0] = '\0';
    t->over = false;
  } else {
    dlk_redis_holder_text(t->op->holder, value->str, value->len);
  }
}

void dlk_redis_other_limit(struct dlk_redis_try *t) {
  struct dlk_error err;
  if (t->op->ending != DLK_OK) {
    dlk_redis_give_up(t);
    return;
  }
  dlk_error_other_limit(&err, t->op->key, t->op->key_len);
  dlk_redis_done(t, &err);
}
