/* Administration: break, revoke, and downgrade. Each is one script. */
#include "store/redis/recipe/admin.h"

#include <hiredis/hiredis.h>

#include "store/redis/recipe/hold.h"
#include "store/redis/wire/codec.h"
#include "store/redis/wire/reply.h"

static void done(struct dlk_redis_try *t, const redisReply *reply) {
  (void)reply;
  dlk_redis_finish(t, dlk_value_bool(true));
}

static const struct dlk_redis_step breaking = {.aim = DLK_REDIS_TO_BREAK,
                                               .script = DLK_REDIS_BREAK,
                                               .answer = done,
                                               .deed = "the break"};

void dlk_redis_break(struct dlk_redis_try *t) {
  dlk_redis_send(t, &breaking);
}

static const struct dlk_redis_step revoking = {
    .aim = DLK_REDIS_TO_REVOKE, .script = DLK_REDIS_REVOKE, .answer = done};

void dlk_redis_revoke(struct dlk_redis_try *t) {
  dlk_redis_send(t, &revoking);
}

static void downgrade_args(struct dlk_redis_try *t, struct dlk_buf *out) {
  struct dlk_redis_hold *h = dlk_redis_try_hold(t);
  dlk_redis_put_token(out, &h->token);
  dlk_redis_put_int(out, t->op->lease->fence);
  dlk_redis_put_int(out, dlk_redis_held_ms(t->store, h));
}

static void downgraded(struct dlk_redis_try *t, const redisReply *reply) {
  if (dlk_redis_int(reply, 0, 0) != 1)
    dlk_redis_done_code(t, DLK_LOST);
  else if (dlk_redis_int(reply, 1, 0) == 1) /* more dead waiters */
    dlk_redis_downgrade(t);
  else
    dlk_redis_finish(t, dlk_value_bool(true));
}

static const struct dlk_redis_step downgrading = {.aim = DLK_REDIS_TO_DOWNGRADE,
                                                  .script = DLK_REDIS_DOWNGRADE,
                                                  .args = downgrade_args,
                                                  .answer = downgraded};

void dlk_redis_downgrade(struct dlk_redis_try *t) {
  dlk_redis_send(t, &downgrading);
}

/* ---- publish: as downgrade ---- */

static void publish_args(struct dlk_redis_try *t, struct dlk_buf *out) {
  downgrade_args(t, out);
  dlk_redis_put(out, t->op->text, t->op->text_len);
}

static void published(struct dlk_redis_try *t, const redisReply *reply) {
  if (reply->type == REDIS_REPLY_INTEGER && reply->integer == 1)
    dlk_redis_finish(t, dlk_value_bool(true));
  else
    dlk_redis_done_code(t, DLK_LOST);
}

static const struct dlk_redis_step publishing = {.aim = DLK_REDIS_TO_DOWNGRADE,
                                                 .script = DLK_REDIS_PUBLISH,
                                                 .args = publish_args,
                                                 .answer = published};

void dlk_redis_publish(struct dlk_redis_try *t) {
  dlk_redis_send(t, &publishing);
}
