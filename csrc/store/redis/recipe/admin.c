/* Administration: break, revoke, and downgrade. Each is one script.
 *
 * A reply that was lost:
 * - revoke and downgrade say the same when they run twice, and are sent again;
 * - break may have let the next holder in, whom a second one would hit: it is
 *   reported, never repeated. */
#include "store/redis/recipe/admin.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/redis/recipe/hold.h"
#include "store/redis/wire/codec.h"
#include "store/redis/wire/reply.h"

/* ---- break, revoke ---- */

static void broke(struct dlk_redis_call *call,
                  const struct dlk_redis_result *r) {
  struct dlk_redis_try *t = dlk_redis_try_by(call);
  if (!dlk_redis_unrepeated(t, r, "the break"))
    dlk_redis_finish(t, dlk_value_bool(true));
}

void dlk_redis_break(struct dlk_redis_try *t) {
  t->call.args = NULL;
  t->call.answer = broke;
  dlk_redis_call_script(&t->call, DLK_REDIS_BREAK);
}

static void asked(struct dlk_redis_call *call,
                  const struct dlk_redis_result *r) {
  struct dlk_redis_try *t = dlk_redis_try_by(call);
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
  struct dlk_redis_try *t = dlk_redis_try_by(call);
  struct dlk_redis_hold *h = dlk_redis_try_hold(t);
  dlk_redis_put_token(out, &h->token);
  dlk_redis_put_int(out, t->op->lease->fence);
  dlk_redis_put_int(out, dlk_redis_held_ms(t->store, h));
}

static void downgraded(struct dlk_redis_call *call,
                       const struct dlk_redis_result *r) {
  struct dlk_redis_try *t = dlk_redis_try_by(call);
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
