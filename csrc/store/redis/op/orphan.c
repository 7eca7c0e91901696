/* An orphan is a token that nobody holds and that may stand on the server: of
 * an attempt whose reply was lost, or of a release that did not arrive.
 *
 * I1 leave.lua takes it back, and touches nothing but this token.
 * I2 It is asked for until its end, when the server has forgotten it by
 *    itself. A server that was silent until then may do the late command after
 *    it: without an answer the token is asked for LATE longer.
 * I3 An attach that was given up gets the lease's first token back, with the
 *    end that it has, so the detached string stays good.
 *
 * Without CLIENT KILL a late command may put the token there again: it is
 * taken back once more at each beat. A refusal that passes (DLK_REDIS_LATER)
 * is repeated after pauses that double up to LONGEST beats; others are final.
 * Beyond MOST orphans, or without memory, a token is left to its end. */
#include "store/redis/op/orphan.h"

#include <stdlib.h>
#include <string.h>

#include "store/redis/wire/codec.h"
#include "store/redis/wire/reply.h"

#define BEAT (DLK_SEC / 2)
#define LONGEST 8
#define LATE (60 * DLK_SEC)
#define MOST 4096

struct orphan {
  struct dlk_redis_call call;
  struct dlk_timer timer;
  struct dlk_list entry;
  int64_t until, fence, pause;
  size_t back_len; /* 0: it is taken back */
  struct dlk_redis_token token;
  char back[DLK_REDIS_TOKEN_MAX + 1];
  char key[];
};

static void drop(struct orphan *o) {
  struct dlk_redis *s = o->call.store;
  s->host->timer_clear(s->host, &o->timer);
  dlk_list_remove(&o->entry);
  s->orphan_count--;
  free(o);
}

void dlk_redis_leave_args(struct dlk_buf *out,
                          const struct dlk_redis_token *token, int64_t rest) {
  dlk_redis_put_token(out, token);
  dlk_redis_put_int(out, rest > 0 ? dlk_to_ms(rest) : 0);
}

static void args(struct dlk_redis_call *call, struct dlk_buf *out) {
  struct orphan *o = DLK_CONTAINER(call, struct orphan, call);
  if (o->back_len == 0) {
    dlk_redis_leave_args(out, &o->token, 0);
    return;
  }
  dlk_redis_put_token(out, &o->token);
  dlk_redis_put(out, o->back, o->back_len);
  dlk_redis_put_int(out, 0);
  dlk_redis_put_int(out, o->fence);
  dlk_redis_put_int(out, 0); /* since */
  dlk_redis_put_int(out, 0); /* ending: at least */
}

static void send(struct orphan *o) {
  o->call.store->host->busy(o->call.store->host, 1);
  dlk_redis_call_send(&o->call,
                      o->back_len ? DLK_REDIS_ATTACH : DLK_REDIS_LEAVE);
}

/* When it is asked again. */
static int64_t after_pause(struct orphan *o, int64_t now) {
  int64_t pause = o->pause;
  o->pause = pause < LONGEST * BEAT ? 2 * pause : pause;
  return now + pause;
}

static void answered(struct dlk_redis_call *call,
                     const struct dlk_redis_result *r) {
  struct orphan *o = DLK_CONTAINER(call, struct orphan, call);
  struct dlk_redis *s = call->store;
  int64_t now = dlk_redis_now(s);
  bool good = r->verdict == DLK_REDIS_GOOD, takes_back = o->back_len == 0;
  bool more = good && takes_back && dlk_redis_int(r->reply, 1, 0) == 1;
  bool again =
      more ||
      (!good && dlk_redis_rule(DLK_REDIS_TO_TAKE_BACK, r->verdict).until ==
                    DLK_REDIS_STANDING);
  s->host->busy(s->host, -1);
  int64_t end = good ? o->until : dlk_time_add(o->until, LATE);
  bool stands = !s->stopping && now < end;
  if (stands && again)
    send(o);
  else if (stands && good && s->link->may_linger)
    s->host->timer_set(s->host, &o->timer, now + BEAT);
  else if (stands && r->passes)
    s->host->timer_set(s->host, &o->timer, after_pause(o, now));
  else
    drop(o);
}

static void on_timer(struct dlk_timer *timer, int64_t now) {
  (void)now;
  send(DLK_CONTAINER(timer, struct orphan, timer));
}

/* NULL: it is left to its own expiry. */
static struct orphan *make(struct dlk_redis *s, const char *key, size_t key_len,
                           const struct dlk_redis_token *token, int64_t until) {
  if (s->stopping || s->orphan_count >= MOST)
    return NULL;
  struct orphan *o = calloc(1, sizeof *o + key_len);
  if (!o)
    return NULL;
  memcpy(o->key, key, key_len);
  memcpy(o->token.text, token->text, token->len);
  o->token.len = token->len;
  o->until = until;
  o->pause = BEAT;
  o->timer.fire = on_timer;
  o->call.store = s;
  (void)dlk_redis_call_key(&o->call, o->key, key_len);
  o->call.args = args;
  o->call.answer = answered;
  o->call.in_order = true;
  dlk_list_append(&s->orphans, &o->entry);
  s->orphan_count++;
  return o;
}

void dlk_redis_orphan(struct dlk_redis *s, const char *key, size_t key_len,
                      const struct dlk_redis_token *token, int64_t until) {
  struct orphan *o = make(s, key, key_len, token, until);
  if (o)
    send(o);
}

void dlk_redis_orphan_attach(struct dlk_redis *s, const struct dlk_lease *lease,
                             const struct dlk_redis_token *token,
                             const char *back, size_t back_len, int64_t until) {
  struct orphan *o = make(s, lease->key, lease->key_len, token, until);
  if (!o)
    return;
  memcpy(o->back, back, back_len);
  o->back_len = back_len;
  o->fence = lease->fence;
  send(o);
}

bool dlk_redis_is_orphan(const struct dlk_redis *s, const char *text,
                         size_t len) {
  const struct dlk_list *l;
  if (!dlk_redis_token_is_of(&s->tokens, text, len))
    return false;
  for (l = s->orphans.next; l && l != &s->orphans; l = l->next) {
    const struct orphan *o = DLK_CONTAINER(l, struct orphan, entry);
    if (o->back_len == 0 && o->token.len == len &&
        memcmp(o->token.text, text, len) == 0)
      return true;
  }
  return false;
}

void dlk_redis_orphans_end(struct dlk_redis *s) {
  struct dlk_list *l = s->orphans.next;
  while (l && l != &s->orphans) {
    struct orphan *o = DLK_CONTAINER(l, struct orphan, entry);
    l = l->next;
    /* One that is under way ends with its request. */
    if (o->call.busy && !dlk_redis_call_withdraw(&o->call))
      continue;
    if (!o->timer.node.queued)
      s->host->busy(s->host, -1);
    drop(o);
  }
}
