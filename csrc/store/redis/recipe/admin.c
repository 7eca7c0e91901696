/* Mending and moving: break, revoke, downgrade, and guarded writes. Each is
 * one script.
 *
 * A reply that was lost:
 * - revoke and downgrade say the same when they run twice, and are sent again;
 * - break may have let the next holder in, whom a second one would hit; a
 *   guarded write may have been done. Both are reported, never repeated. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/redis/op/machine.h"

#define WORDS_MAX 1000 /* of a guarded command: they pass Lua's stack */

static struct dlk_redis_try *try_of(struct dlk_redis_call *call) {
  return DLK_CONTAINER(call, struct dlk_redis_try, call);
}

static struct dlk_redis_hold *hold_of(struct dlk_redis_try *t) {
  return dlk_redis_hold_of(t->op->lease);
}

/* For what must not be sent twice. */
static bool unrepeated(struct dlk_redis_try *t,
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

/* ---- break, revoke ---- */

static void broke(struct dlk_redis_call *call,
                  const struct dlk_redis_result *r) {
  struct dlk_redis_try *t = try_of(call);
  if (!unrepeated(t, r, "the break"))
    dlk_redis_finish(t, dlk_value_bool(true));
}

void dlk_redis_break(struct dlk_redis_try *t) {
  t->call.args = NULL;
  t->call.answer = broke;
  dlk_redis_call_script(&t->call, DLK_REDIS_BREAK);
}

static void asked(struct dlk_redis_call *call,
                  const struct dlk_redis_result *r) {
  struct dlk_redis_try *t = try_of(call);
  if (!dlk_redis_failed(t, r))
    dlk_redis_finish(t, dlk_value_bool(true));
}

void dlk_redis_revoke(struct dlk_redis_try *t) {
  t->call.args = NULL;
  t->call.answer = asked;
  dlk_redis_call_script(&t->call, DLK_REDIS_REVOKE);
}

/* ---- downgrade ---- */

static void downgrade_args(struct dlk_redis_call *call, struct dlk_buf *out) {
  struct dlk_redis_try *t = try_of(call);
  struct dlk_redis_hold *h = hold_of(t);
  dlk_redis_put(out, h->token, h->token_len);
  dlk_redis_put_int(out, t->op->lease->fence);
  dlk_redis_put_int(out, dlk_redis_held_ms(t->store, h));
}

static void downgraded(struct dlk_redis_call *call,
                       const struct dlk_redis_result *r) {
  struct dlk_redis_try *t = try_of(call);
  if (r->verdict != DLK_REDIS_GOOD)
    dlk_redis_retry(t, r, dlk_redis_downgrade);
  else if (dlk_redis_int(r->reply, 0, 0) != 1)
    dlk_redis_done_code(t, DLK_LOST);
  else if (dlk_redis_int(r->reply, 1, 0) == 1) /* more dead waiters */
    dlk_redis_call_script(call, DLK_REDIS_DOWNGRADE);
  else
    dlk_redis_finish(t, dlk_value_bool(true));
}

void dlk_redis_downgrade(struct dlk_redis_try *t) {
  t->call.args = downgrade_args;
  t->call.answer = downgraded;
  dlk_redis_call_script(&t->call, DLK_REDIS_DOWNGRADE);
}

/* ---- guarded writes ---- */

static void guard_args(struct dlk_redis_call *call, struct dlk_buf *out) {
  struct dlk_redis_try *t = try_of(call);
  const struct dlk_op *op = t->op;
  dlk_redis_put(out, hold_of(t)->token, hold_of(t)->token_len);
  for (size_t i = 0; i < op->argc; i++)
    dlk_redis_put(out, op->argv[i], op->argv_len[i]);
}

/* The link has bounded how deep a reply is. */
static struct dlk_value *convert(const redisReply *r) {
  struct dlk_value *v;
  switch (r->type) {
  case REDIS_REPLY_STRING:
  case REDIS_REPLY_STATUS:
  case REDIS_REPLY_ERROR:
    return dlk_value_string(r->str, r->len);
  case REDIS_REPLY_INTEGER:
    return dlk_value_int(r->integer);
  case REDIS_REPLY_ARRAY:
    v = dlk_value_list();
    for (size_t i = 0; i < r->elements; i++)
      v = dlk_value_add(v, convert(r->element[i]));
    return v;
  default:
    return dlk_value_nil();
  }
}

/* What the command itself was refused for. */
static void refused(struct dlk_redis_try *t, const char *text) {
  struct dlk_error err;
  char key[DLK_QUOTED_MAX];
  const struct dlk_redis_fault *f = dlk_redis_fault_find(text);
  if (f->word[0] && strcmp(f->word, "WRONGTYPE") != 0)
    dlk_redis_fault_error(&err, text, t->store->conf.shown);
  else
    dlk_error_set(
        &err, DLK_INVALID, "%s: '%s' refuses the guarded command: %.150s",
        dlk_quote(key, t->op->key, t->op->key_len), t->store->conf.shown, text);
  dlk_redis_done(t, &err);
}

static void guarded(struct dlk_redis_call *call,
                    const struct dlk_redis_result *r) {
  struct dlk_redis_try *t = try_of(call);
  if (unrepeated(t, r, "the write"))
    return;
  const redisReply *reply = r->reply;
  bool list = reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
              reply->element[0]->type == REDIS_REPLY_STRING;
  const char *word = list ? reply->element[0]->str : "";
  if (strcmp(word, "lost") == 0) {
    dlk_redis_done_code(t, DLK_LOST);
  } else if (strcmp(word, "refused") == 0 && reply->elements == 2 &&
             reply->element[1]->type == REDIS_REPLY_STRING) {
    refused(t, reply->element[1]->str);
  } else if (strcmp(word, "done") == 0) {
    struct dlk_value *v = dlk_value_tuple();
    v = dlk_value_add(v, reply->elements > 1 ? convert(reply->element[1])
                                             : dlk_value_nil());
    dlk_redis_finish(t, v);
  } else {
    struct dlk_error err;
    dlk_redis_odd(t->store, &err);
    dlk_redis_done(t, &err);
  }
}

void dlk_redis_guard(struct dlk_redis_try *t) {
  struct dlk_error err;
  if (t->op->argc > WORDS_MAX) {
    dlk_error_set(&err, DLK_INVALID,
                  "a guarded command has at most %d arguments; use several",
                  WORDS_MAX);
    dlk_redis_done(t, &err);
    return;
  }
  t->call.more = t->op->argc;
  t->call.args = guard_args;
  t->call.answer = guarded;
  dlk_redis_call_script(&t->call, DLK_REDIS_GUARD);
}
