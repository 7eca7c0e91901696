/* Guarded writes: a command of the user's that one script runs only while our
 * token holds. One whose reply was lost may have been done: that is reported,
 * and the write never repeated. */
#include "store/redis/recipe/guard.h"

#include <hiredis/hiredis.h>
#include <string.h>

#include "store/redis/wire/codec.h"
#include "store/redis/wire/errors.h"
#include "store/redis/wire/reply.h"

#define WORDS_MAX 1000 /* of a guarded command: they pass Lua's stack */

static void args(struct dlk_redis_try *t, struct dlk_buf *out) {
  const struct dlk_op *op = t->op;
  dlk_redis_put_token(out, &dlk_redis_try_hold(t)->token);
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
        &err, DLK_INVALID, "%s: '%s' refuses the guarded command%s: %.150s",
        dlk_quote(key, t->op->key, t->op->key_len), t->store->conf.shown,
        strstr(text, "non local key")
            ? " (put store:tag(key) into the names of its keys)"
            : "",
        text);
  dlk_redis_done(t, &err);
}

static void guarded(struct dlk_redis_try *t, const redisReply *reply) {
  const char *word = dlk_redis_word(reply);
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
    dlk_redis_done_odd(t);
  }
}

static const struct dlk_redis_step guarding = {.aim = DLK_REDIS_TO_GUARD,
                                               .script = DLK_REDIS_GUARD,
                                               .args = args,
                                               .answer = guarded,
                                               .deed = "the write"};

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
  dlk_redis_send(t, &guarding);
}
