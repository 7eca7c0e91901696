/* Waiting for another holder (elections). change.lua compares the holder with
 * the one that was seen, and else notes our channel beside the lock. A script
 * that changes the holder publishes `c lock` there; on that we ask again.
 *
 * I1 A holder is known by its noted fence, else by its token. The first renewal
 *    of a hold notes it, and does not change the holder.
 * I2 Comparing and noting the channel is one script, so nothing is missed.
 * I3 Messages may be lost, and expiry, a foreign DEL or take.lua tell nobody:
 * so we ask once a beat, at the end of the holder's time, and after each
 *    (re)subscription.
 * I4 A wait that ends takes the channel back; what stays expires after three
 *    beats. */
#include "store/redis/recipe/leader.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>

#include "store/redis/recipe/inspect.h"
#include "store/redis/wire/codec.h"

#define BEAT DLK_SEC
#define ID_MASK ((UINT64_C(1) << 4 * DLK_REDIS_ID) - 1)

static void args(struct dlk_redis_try *t, struct dlk_buf *out) {
  bool leaving = t->step->aim == DLK_REDIS_TO_UNWATCH;
  char id[DLK_REDIS_ID + 2];
  if (t->op->fence == DLK_REDIS_ANYBODY) {
    dlk_redis_put_text(out, "any");
  } else if (t->op->fence <= DLK_REDIS_ID_FIRST) {
    uint64_t digits = (uint64_t)(DLK_REDIS_ID_FIRST - t->op->fence);
    snprintf(id, sizeof id, "%0*" PRIx64 ":", DLK_REDIS_ID, digits & ID_MASK);
    dlk_redis_put_text(out, id);
  } else {
    dlk_redis_put_int(out, t->op->fence);
  }
  dlk_redis_call_put_channel(&t->call, out);
  dlk_redis_put_int(out, leaving ? 0 : dlk_to_ms(3 * BEAT));
}

static const struct dlk_redis_step watching;

static void ask(struct dlk_redis_try *t) {
  t->change.news = false;
  t->store->host->timer_clear(t->store->host, &t->timer);
  dlk_redis_send(t, &watching);
}

static bool is_waiting(const struct dlk_redis_try *t) {
  return t->step == &watching && !t->call.busy;
}

static void on_timer(struct dlk_timer *timer, int64_t now) {
  struct dlk_redis_try *t = DLK_CONTAINER(timer, struct dlk_redis_try, timer);
  (void)now;
  if (is_waiting(t))
    ask(t);
}

static void wait_until(struct dlk_redis_try *t, int64_t at) {
  t->timer.fire = on_timer;
  t->store->host->timer_set(t->store->host, &t->timer, at);
}

/* ---- leaving ---- */

static void left(struct dlk_redis_try *t, const redisReply *reply) {
  (void)reply;
  dlk_redis_give_up(t);
}

static const struct dlk_redis_step leaving = {.aim = DLK_REDIS_TO_UNWATCH,
                                              .script = DLK_REDIS_CHANGE,
                                              .args = args,
                                              .answer = left};

static void leave(struct dlk_redis_try *t) {
  t->store->host->timer_clear(t->store->host, &t->timer);
  dlk_redis_send(t, &leaving);
}

/* ---- answers ---- */

static void ask_soon(struct dlk_redis_try *t) {
  wait_until(t, dlk_redis_now(t->store) + BEAT / 10);
}

static void answered(struct dlk_redis_try *t, const redisReply *reply) {
  struct dlk_redis *s = t->store;
  int64_t left_ms = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -3;
  t->placed = left_ms != -3;
  if (!t->placed) {
    dlk_redis_finish(t, dlk_value_bool(true));
  } else if (t->op->ending != DLK_OK) {
    leave(t);
  } else if (t->change.news) {
    ask(t);
  } else {
    uint16_t jitter;
    s->host->random(s->host, &jitter, sizeof jitter);
    int64_t now = dlk_redis_now(s);
    int64_t at = now + BEAT - BEAT / 4 * jitter / UINT16_MAX;
    int64_t ends = dlk_time_add(now + DLK_MS, dlk_from_ms(left_ms));
    if (left_ms >= 0 && ends < at)
      at = ends;
    wait_until(t, at);
  }
}

static const struct dlk_redis_step watching = {.aim = DLK_REDIS_TO_WATCH,
                                               .script = DLK_REDIS_CHANGE,
                                               .args = args,
                                               .answer = answered,
                                               .again = ask_soon,
                                               .leave = leave};

/* ---- the way in ---- */

void dlk_redis_change(struct dlk_redis_try *t) {
  struct dlk_redis *s = t->store;
  dlk_list_append(&s->watches, &t->entry);
  s->link->subscribe(s->link, t->call.req.slot);
  ask(t);
}

static void hint(struct dlk_redis_try *t) {
  t->change.news = true;
  if (is_waiting(t)) /* from the loop: no re-entry here */
    t->store->host->timer_set(t->store->host, &t->timer,
                              dlk_redis_now(t->store));
}

void dlk_redis_changed(struct dlk_redis *s, const char *lock, size_t len) {
  size_t before = s->names.prefix_len;
  for (struct dlk_list *l = s->watches.next; l != &s->watches; l = l->next) {
    struct dlk_redis_try *t = DLK_CONTAINER(l, struct dlk_redis_try, entry);
    if (len == before + t->op->key_len &&
        memcmp(lock + before, t->op->key, t->op->key_len) == 0)
      hint(t);
  }
}

void dlk_redis_change_subscribed(struct dlk_redis *s, int slot) {
  for (struct dlk_list *l = s->watches.next; l != &s->watches; l = l->next) {
    struct dlk_redis_try *t = DLK_CONTAINER(l, struct dlk_redis_try, entry);
    if (dlk_redis_call_is_in(&t->call, slot))
      hint(t);
  }
}
