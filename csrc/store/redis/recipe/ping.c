/* The calls that neither take nor give: ping and locked. Both may be repeated
 * freely; a connection that turned out to be dead is worth one more try. */
#include "store/redis/recipe/ping.h"

#include <hiredis/hiredis.h>

#include "store/redis/wire/codec.h"

static void ping_args(struct dlk_redis_call *call, struct dlk_buf *out) {
  (void)call;
  dlk_redis_put_array(out, 1);
  dlk_redis_put(out, "PING", 4);
}

static void ponged(struct dlk_redis_call *call,
                   const struct dlk_redis_result *r) {
  struct dlk_redis_try *t = dlk_redis_try_by(call);
  if (dlk_redis_failed(t, r))
    return;
  int64_t took = dlk_redis_now(t->store) - call->req.sent;
  dlk_redis_finish(t, dlk_value_number((double)took / (double)DLK_SEC));
}

void dlk_redis_ping(struct dlk_redis_try *t) {
  t->call.args = ping_args;
  t->call.answer = ponged;
  dlk_redis_call_plain(&t->call);
}

static void locked_args(struct dlk_redis_call *call, struct dlk_buf *out) {
  struct dlk_redis_name name;
  (void)dlk_redis_names_of(&call->store->names, &name, call->key,
                           call->key_len);
  dlk_redis_put_array(out, 2);
  dlk_redis_put(out, "EXISTS", 6);
  dlk_redis_put_name(out, &name, DLK_REDIS_LOCK);
}

static void looked(struct dlk_redis_call *call,
                   const struct dlk_redis_result *r) {
  struct dlk_redis_try *t = dlk_redis_try_by(call);
  if (dlk_redis_failed(t, r))
    return;
  bool held = r->reply->type == REDIS_REPLY_INTEGER && r->reply->integer > 0;
  dlk_redis_finish(t, dlk_value_bool(held));
}

void dlk_redis_locked(struct dlk_redis_try *t) {
  t->call.args = locked_args;
  t->call.answer = looked;
  dlk_redis_call_plain(&t->call);
}
