/* Requests that read one thing. Both may be repeated freely; a connection that
 * turned out to be dead is worth one more try. */
#include "store/redis/recipe/ping.h"

#include <hiredis/hiredis.h>

#include "store/redis/wire/codec.h"

static void ping_args(struct dlk_redis_try *t, struct dlk_buf *out) {
  (void)t;
  dlk_redis_put_array(out, 1);
  dlk_redis_put(out, "PING", 4);
}

static void ponged(struct dlk_redis_try *t, const redisReply *reply) {
  (void)reply;
  int64_t took = dlk_redis_now(t->store) - t->call.req.sent;
  dlk_redis_finish(t, dlk_value_number((double)took / (double)DLK_SEC));
}

static const struct dlk_redis_step pinging = {.aim = DLK_REDIS_TO_READ,
                                              .script = DLK_REDIS_NO_SCRIPT,
                                              .args = ping_args,
                                              .answer = ponged};

void dlk_redis_ping(struct dlk_redis_try *t) {
  dlk_redis_send(t, &pinging);
}

static void locked_args(struct dlk_redis_try *t, struct dlk_buf *out) {
  struct dlk_redis_name name;
  dlk_redis_names_of(&t->store->names, &name, t->call.key, t->call.key_len,
                     t->call.req.slot);
  dlk_redis_put_array(out, 2);
  if (t->op->names)
    dlk_redis_put(out, "GET", 3);
  else
    dlk_redis_put(out, "EXISTS", 6);
  dlk_redis_put_name(out, &name, DLK_REDIS_LOCK);
}

static void locked(struct dlk_redis_try *t, const redisReply *reply) {
  bool held = reply->type == REDIS_REPLY_STRING ||
              (reply->type == REDIS_REPLY_INTEGER && reply->integer > 0);
  if (reply->type == REDIS_REPLY_STRING)
    dlk_redis_holder_text(t->op->holder, reply->str, reply->len);
  dlk_redis_finish(t, dlk_value_bool(held));
}

static const struct dlk_redis_step asking_locked = {.aim = DLK_REDIS_TO_READ,
                                                    .script =
                                                        DLK_REDIS_NO_SCRIPT,
                                                    .args = locked_args,
                                                    .answer = locked};

void dlk_redis_locked(struct dlk_redis_try *t) {
  dlk_redis_send(t, &asking_locked);
}
