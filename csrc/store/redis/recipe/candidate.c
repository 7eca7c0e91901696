/* Who wants a lock, whichever way: with a token that nobody asked for yet, to
 * the grant. A token whose outcome is unknown, or that the server no longer
 * knows, is never asked for again: a message for it that comes late would be
 * taken for the grant of the new attempt. */
#include "store/redis/recipe/candidate.h"

#include <hiredis/hiredis.h>

#include "store/redis/op/orphan.h"
#include "store/redis/wire/codec.h"

void dlk_redis_draw_token(struct dlk_redis_try *t) {
  struct dlk_redis *s = t->store;
  struct dlk_redis_hold *h = dlk_redis_try_hold(t);
  dlk_redis_token_drop(&s->tokens, &h->token);
  dlk_redis_token_make(&s->tokens, s->host, &h->token, h->lease->owner);
  dlk_redis_token_put(&s->tokens, &h->token);
}

void dlk_redis_acquire_args(struct dlk_redis_try *t,
                            const struct dlk_redis_bid *bid,
                            struct dlk_buf *out) {
  const struct dlk_lease *lease = t->op->lease;
  dlk_redis_put_token(out, &dlk_redis_try_hold(t)->token);
  dlk_redis_put_int(out, dlk_to_ms(lease->ttl));
  dlk_redis_put_int(out, lease->want.units);
  dlk_redis_put_int(out, lease->want.cap);
  dlk_redis_put_text(out, bid->how);
  dlk_redis_put_int(out, bid->claim);
  dlk_redis_put_int(out, bid->believed);
  dlk_redis_put_text(out, bid->order);
  dlk_redis_put_int(out, bid->handoffs);
}

void dlk_redis_granted(struct dlk_redis_try *t, int64_t fence, int64_t sent,
                       int64_t claim) {
  struct dlk_lease *lease = t->op->lease;
  struct dlk_redis_hold *h = dlk_redis_try_hold(t);
  if (t->call.scarce) {
    lease->spare = 0;
    dlk_redis_scarce(t);
    return;
  }
  lease->fence = fence;
  lease->sent = sent;
  lease->claim = claim;
  h->waiting = NULL;
  h->granted = dlk_redis_now(t->store);
  h->until = claim ? claim : dlk_lease_deadline(sent, lease->ttl);
  h->where = t->store->link->moves;
  h->extended = false;
  DLK_TRACE(h->granted, "redis", "grant", lease->key, lease->key_len,
            "fence %lld, token ..%s", (long long)fence,
            dlk_redis_token_end(&h->token).text);
  dlk_redis_done(t, NULL);
}

/* A place in a queue lasts for a minute at least. */
static int64_t stands_for(struct dlk_redis_try *t) {
  int64_t ttl = t->op->lease->ttl;
  bool queued = t->placed && t->step->aim != DLK_REDIS_TO_SEED;
  return queued && ttl < 60 * DLK_SEC ? 60 * DLK_SEC : ttl;
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
