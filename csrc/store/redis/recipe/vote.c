/* A vote is a try of one script, which names the counter's value. A busy node
 * is told, and not tried anew. After a lost answer another token is tried.
 *
 * I1 A node that may have forgotten a hold gives no vote until that hold has
 *    ended: not before max_ttl after its start, unless it keeps each write. A
 *    repair has q other votes, so there is no hold to forget; it waits until
 *    rounds of before the start are over. */
#include "store/redis/recipe/vote.h"

#include <hiredis/hiredis.h>

#include "store/redis/recipe/candidate.h"
#include "store/redis/wire/codec.h"
#include "store/redis/wire/reply.h"

#define STAYS_OUT (2 * DLK_SEC) /* on top of max_ttl */

/* The time until it may. */
static int64_t out_for(const struct dlk_redis_try *t) {
  const struct dlk_redis_link *link = t->store->link;
  int64_t age = t->store->host->now(t->store->host) - link->began;
  int64_t out = t->op->lease->fence > 0 ? DLK_REDIS_REPAIRS_AFTER
                                        : t->store->max_ttl + STAYS_OUT;
  return link->keeps ? 0 : out - age;
}

static void args(struct dlk_redis_try *t, struct dlk_buf *out) {
  dlk_redis_put_token(out, &dlk_redis_try_hold(t)->token);
  dlk_redis_put_int(out, dlk_to_ms(t->op->lease->ttl));
  dlk_redis_put_int(out, t->op->lease->fence);
  dlk_redis_put_int(out, out_for(t) <= 0);
  dlk_redis_put_int(out, (int64_t)t->op->limit);
}

static void young(struct dlk_redis_try *t) {
  struct dlk_error err;
  int64_t out = out_for(t);
  dlk_error_set(&err, DLK_UNAVAILABLE,
                "%s was started less than max_ttl and 2 s ago and may have "
                "forgotten who holds; it votes in %lld s",
                t->store->conf.shown, (long long)(out / DLK_SEC) + 1);
  dlk_redis_done(t, &err);
}

static void busy(struct dlk_redis_try *t, const redisReply *reply) {
  const redisReply *held = dlk_redis_at(reply, 1);
  int64_t listed = dlk_redis_int(reply, 2, 0);
  struct dlk_error err = {.code = DLK_BUSY};
  if (listed > 0 && listed != (int64_t)t->op->limit) {
    t->op->fence = DLK_REDIS_OTHER_LIST;
    dlk_error_set(&err, DLK_INVALID,
                  "%s: who holds the lock lists %lld servers, and this store "
                  "%zu; all programs must list the same",
                  t->store->conf.shown, (long long)listed, t->op->limit);
  } else if (held->type == REDIS_REPLY_STRING && held->len > DLK_REDIS_NAME &&
             memcmp(held->str, t->op->text, DLK_REDIS_NAME) < 0) {
    t->op->fence = DLK_REDIS_SMALLER;
  }
  dlk_redis_held_by(t, held);
  dlk_redis_done(t, &err);
}

static void voted(struct dlk_redis_try *t, const redisReply *reply) {
  const char *word = dlk_redis_word(reply);
  if (strcmp(word, "got") == 0) {
    dlk_redis_granted(t, dlk_redis_int(reply, 1, 0), t->call.req.sent, 0);
  } else if (strcmp(word, "busy") == 0) {
    busy(t, reply);
  } else if (strcmp(word, "young") == 0) {
    young(t);
  } else {
    dlk_redis_token_back(t);
    dlk_redis_done_odd(t);
  }
}

static void anew(struct dlk_redis_try *t) {
  dlk_redis_token_back(t);
  dlk_redis_vote(t);
}

static const struct dlk_redis_step voting = {.aim = DLK_REDIS_TO_TRY,
                                             .script = DLK_REDIS_VOTE,
                                             .args = args,
                                             .answer = voted,
                                             .anew = anew,
                                             .back = dlk_redis_token_back};

void dlk_redis_vote(struct dlk_redis_try *t) {
  dlk_redis_send(t, &voting);
}
