/* Waiting: first come, first served, with direct hand-over.
 *
 *   place    our token in the queue, with its order
 *   claim    the time for which a hand-over holds the lock: a second at most
 *   refresh  a request that keeps our place, or finds that we hold the lock
 *   beat     the time between two refreshes
 *   news     a message that came while a request was under way
 *
 * I1 A hold begins with a message only if its token waits; if its fence is
 *    above the counter of our last `wait`; and if more than half of a claim is
 *    left, counted from the sending of the request that was answered `wait`.
 *    The server granted after that answer, so its claim ends later than ours.
 * I2 Such a hold counts until the claim ends. A renewal never makes a hold.
 * I3 Any other message only makes us refresh.
 * I4 Each join has a token of its own; a token that the server forgot, or
 *    whose outcome is unknown, is never sent again. The order stays.
 * I5 The order decides. A sign of life is a hint: a waiter that was dropped by
 *    mistake comes back with its order.
 *
 * These always refresh first: a sharer from the ninth place or a standing queue
 * on, since thousands may be let in with it; a waiter that hands over locally,
 * since the answer sets fences aside; a waiter that counts on replicas, since
 * they confirm only what our connection writes.
 *
 * Message or subscription lost: each refresh finds the grant. A client without
 * a subscription counts as dead while others behind it listen.
 * Message before the answer to an older refresh: news; we refresh once more.
 * Claim over before the refresh: the answer is `gone`; we join anew: I4.
 * Reply lost: we join anew, and then take the old token back. The other way
 * round the waiter behind us would get the lock of the old token.
 * Cancel against grant: `got` ends the op well; after our leave the server has
 * handed the lock on.
 * All waiters silent at once: the server stood still (queue.lua).
 *
 * The first ranks ask three times a claim, the head also when the holder's time
 * is over. Behind them the beat grows with the rank: to 2 s in a queue that
 * moves, else to the time that it stood, two thirds of a ttl at most. A
 * newcomer asks again within its second of belief. The longest beats have a
 * moment of their own and four ticks a second, so one write has many requests.
 */
#include "store/redis/recipe/wait.h"

#include <hiredis/hiredis.h>

#include "store/redis/op/orphan.h"
#include "store/redis/recipe/candidate.h"
#include "store/redis/wire/codec.h"
#include "store/redis/wire/reply.h"

/* The claim. */
#define CLAIM DLK_SEC
#define FRONT 8u
#define BEAT_RANKS 4 /* behind the front, so many ranks for one BEAT more */
#define BEAT (CLAIM / 3)
#define BEAT_MOVING (2 * DLK_SEC) /* OFTEN in refresh.lua is three of them */
#define BEAT_MAX (20 * DLK_SEC)
#define TICK (DLK_SEC / 4)

/* In whole ticks. A dead holder's lock lasts two thirds of a ttl at least, so
 * the waiter right behind a dead process has found out when it is free. */
static int64_t longest_beat(const struct dlk_redis_try *t) {
  int64_t lasts = t->op->lease->ttl / 3 * 2;
  int64_t most = lasts < BEAT_MAX ? lasts / TICK * TICK : BEAT_MAX;
  return most > BEAT_MOVING ? most : BEAT_MOVING;
}

/* As long as the queue stood. */
static int64_t calm_beat(const struct dlk_redis_try *t) {
  int64_t calm = dlk_redis_now(t->store) - t->acquire.stands_since;
  int64_t most = longest_beat(t);
  most = calm < most ? calm : most;
  return most > BEAT_MOVING ? most : BEAT_MOVING;
}

static int64_t beat_of(const struct dlk_redis_try *t) {
  if (t->acquire.rank < FRONT)
    return BEAT;
  int64_t beat = BEAT + BEAT * (int64_t)(t->acquire.rank - FRONT) / BEAT_RANKS;
  int64_t most = calm_beat(t);
  return beat < most ? beat : most;
}

/* Two of our beats may be late, and by no more than those of a queue that
 * moves. */
static int64_t belief_of(const struct dlk_redis_try *t) {
  int64_t beat = beat_of(t);
  return beat + 2 * (beat < BEAT_MOVING ? beat : BEAT_MOVING);
}

/* The queue stands while our rank is much the same. */
static void note_rank(struct dlk_redis_try *t, uint32_t rank) {
  uint32_t was = t->acquire.stands_at;
  if (!t->placed || rank > was || rank < was - was / 8) {
    t->acquire.stands_at = rank;
    t->acquire.stands_since = dlk_redis_now(t->store);
  }
  t->acquire.rank = rank;
}

static int64_t claim_of(const struct dlk_redis_try *t) {
  int64_t ttl = t->op->lease->ttl;
  return ttl < CLAIM ? ttl : CLAIM;
}

static void args(struct dlk_redis_try *t, struct dlk_buf *out) {
  int64_t believed = t->placed ? belief_of(t) : 3 * BEAT;
  dlk_redis_acquire_args(t, out);
  dlk_redis_put_int(out, dlk_to_ms(claim_of(t)));
  dlk_redis_put_int(out, dlk_to_ms(believed));
  dlk_redis_put_text(out, t->acquire.order);
  dlk_redis_put_int(out, t->op->lease->handoffs.most);
}

static const struct dlk_redis_step joining, refreshing;

static void ask(struct dlk_redis_try *t) {
  t->acquire.news = false;
  t->store->host->timer_clear(t->store->host, &t->timer);
  dlk_redis_send(t, t->placed ? &refreshing : &joining);
}

/* ---- leaving ---- */

static void queue_leave(struct dlk_redis_try *t);

static void left(struct dlk_redis_try *t, const redisReply *reply) {
  if (dlk_redis_int(reply, 1, 0) == 1) /* more dead waiters */
    queue_leave(t);
  else
    dlk_redis_give_up(t);
}

static void leave_all(struct dlk_redis_try *t, struct dlk_buf *out) {
  dlk_redis_leave_args(out, &dlk_redis_try_hold(t)->token, 0);
}

static const struct dlk_redis_step leaving = {.aim = DLK_REDIS_TO_LEAVE,
                                              .script = DLK_REDIS_LEAVE,
                                              .args = leave_all,
                                              .answer = left,
                                              .back = dlk_redis_token_back};

/* Has the server forget it, and gives up. */
static void queue_leave(struct dlk_redis_try *t) {
  t->store->host->timer_clear(t->store->host, &t->timer);
  dlk_redis_send(t, &leaving);
}

/* ---- answers ---- */

/* The first of the queue came `since` us before the answer, so nobody queued
 * before that moment by our clock. Below 0: nobody queues. That stays true when
 * the grant is given back and the lock asked for anew. */
static void note_before(struct dlk_lease *lease,
                        const struct dlk_redis_call *call, int64_t since) {
  if (since > 3600 * DLK_SEC / DLK_US)
    return;
  int64_t at = since < 0 ? call->req.sent : call->req.sent - since * DLK_US;
  if (at > lease->handoffs.before)
    lease->handoffs.before = at;
}

static void on_timer(struct dlk_timer *timer, int64_t now) {
  struct dlk_redis_try *t = DLK_CONTAINER(timer, struct dlk_redis_try, timer);
  (void)now;
  dlk_redis_queue_refresh(t);
}

static void refresh_at(struct dlk_redis_try *t, int64_t at) {
  t->timer.fire = on_timer;
  t->store->host->timer_set(t->store->host, &t->timer, at);
}

/* Clients have different ticks, or all would ask at once. */
static int64_t next_refresh(const struct dlk_redis_try *t, int64_t beat,
                            uint16_t jitter) {
  int64_t first = (int64_t)(t->store->crowded.seed % TICK);
  int64_t ends = dlk_redis_now(t->store) + beat;
  if (beat <= BEAT_MOVING)
    return ends - beat / 4 * jitter / UINT16_MAX;
  if (beat < longest_beat(t)) {
    int64_t at = ends - beat / 8 * jitter / UINT16_MAX;
    return at - (at - first) % TICK;
  }
  int64_t moment = first + t->acquire.moment % (beat / TICK) * TICK;
  return ends - (ends - moment) % beat;
}

static void wait_on(struct dlk_redis_try *t, const redisReply *reply) {
  struct dlk_redis *s = t->store;
  int64_t pttl = dlk_redis_int(reply, 1, -1);
  const redisReply *order = reply->element[3], *value = reply->element[5];
  bool joined = !t->placed;
  note_rank(t, (uint32_t)dlk_redis_int(reply, 4, 0));
  t->placed = true;
  t->acquire.waited_at = t->call.req.sent;
  t->acquire.waited_fence = dlk_redis_int(reply, 2, INT64_MAX);
  if (order->type == REDIS_REPLY_STRING && order->len < sizeof t->acquire.order)
    memcpy(t->acquire.order, order->str, order->len + 1);
  dlk_redis_held_by(t, value);
  dlk_redis_mark_crowded(s, t->op->key, t->op->key_len);
  if (t->op->ending != DLK_OK) {
    queue_leave(t);
    return;
  }
  if (t->acquire.news || dlk_redis_int(reply, 6, 0) == 1) {
    ask(t);
    return;
  }
  uint16_t jitter;
  s->host->random(s->host, &jitter, sizeof jitter);
  int64_t beat = beat_of(t);
  if (joined) {
    t->acquire.moment = jitter;
    beat = beat < 2 * BEAT ? beat : 2 * BEAT;
  }
  int64_t at = next_refresh(t, beat, jitter);
  int64_t ends = dlk_time_add(dlk_redis_now(s) + DLK_MS, dlk_from_ms(pttl));
  if (t->acquire.rank == 0 && pttl >= 0 && ends < at)
    at = ends;
  refresh_at(t, at);
}

/* What the server set aside, but not more than it was asked for. */
static uint32_t spare_of(const struct dlk_redis_try *t, int64_t said) {
  int64_t most = t->op->lease->handoffs.most;
  return (uint32_t)(said < 0 ? 0 : said < most ? said : most);
}

static void answered(struct dlk_redis_try *t, const redisReply *reply) {
  const char *word = dlk_redis_word(reply);
  int64_t fence = dlk_redis_int(reply, 1, -1);
  if (strcmp(word, "got") == 0 && fence > 0) {
    dlk_redis_try_hold(t)->crowded = true;
    t->op->lease->handoffs.spare = spare_of(t, dlk_redis_int(reply, 2, 0));
    note_before(t->op->lease, &t->call, dlk_redis_int(reply, 3, INT64_MAX));
    dlk_redis_granted(t, fence, t->call.req.sent, 0);
  } else if (strcmp(word, "wait") == 0 && reply->elements >= 7) {
    wait_on(t, reply);
  } else if (strcmp(word, "gone") == 0) {
    dlk_redis_new_token(t);
    if (t->op->ending != DLK_OK)
      dlk_redis_give_up(t);
    else
      ask(t);
  } else if (strcmp(word, "limit") == 0) {
    dlk_redis_other_limit(t);
  } else {
    dlk_redis_token_back(t);
    dlk_redis_done_odd(t);
  }
}

/* The new token stands before the old one is taken back. */
static void join_anew(struct dlk_redis_try *t) {
  dlk_redis_replace_token(t, ask);
}

static const struct dlk_redis_step joining = {.aim = DLK_REDIS_TO_JOIN,
                                              .script = DLK_REDIS_JOIN,
                                              .args = args,
                                              .answer = answered,
                                              .again = dlk_redis_queue,
                                              .anew = join_anew,
                                              .back = dlk_redis_token_back,
                                              .leave = queue_leave};

static const struct dlk_redis_step refreshing = {.aim = DLK_REDIS_TO_JOIN,
                                                 .script = DLK_REDIS_REFRESH,
                                                 .args = args,
                                                 .answer = answered,
                                                 .again = dlk_redis_queue,
                                                 .anew = join_anew,
                                                 .back = dlk_redis_token_back,
                                                 .leave = queue_leave};

/* ---- the way in ---- */

/* Without a subscription the timer asks. */
static void wait_on_timer(struct dlk_redis_try *t) {
  (void)t;
}

static const struct dlk_redis_step subscribing = {.aim = DLK_REDIS_TO_SUBSCRIBE,
                                                  .again = wait_on_timer,
                                                  .back = dlk_redis_token_back,
                                                  .leave = queue_leave};

void dlk_redis_queue(struct dlk_redis_try *t) {
  struct dlk_redis *s = t->store;
  if (dlk_list_empty(&t->entry))
    dlk_list_append(&s->waits, &t->entry);
  s->link->subscribe(s->link, t->call.req.slot);
  if (s->link->subscribed(s->link, t->call.req.slot)) {
    ask(t);
    return;
  }
  /* `subscribed` goes on, or else the timer. */
  dlk_redis_await(t, &subscribing);
  refresh_at(t, dlk_redis_now(s) + BEAT);
}

void dlk_redis_queue_unsubscribed(struct dlk_redis_try *t,
                                  const struct dlk_error *why) {
  if (t->step == &subscribing)
    dlk_redis_no_answer(t,
                        why->code == DLK_UNAVAILABLE ? DLK_REDIS_NOT_DONE
                                                     : DLK_REDIS_REFUSED,
                        why);
  else
    dlk_redis_trouble(t, why);
}

/* It has a place, and nothing is under way. */
static bool is_waiting(const struct dlk_redis_try *t) {
  return t->step->aim == DLK_REDIS_TO_JOIN && !t->call.busy;
}

void dlk_redis_queue_handed(struct dlk_redis_try *t, int64_t fence) {
  int64_t claim = claim_of(t);
  int64_t end = dlk_lease_deadline(t->acquire.waited_at, claim);
  int64_t now = dlk_redis_now(t->store);
  bool crowd = t->op->lease->want.units > 0 &&
               (t->acquire.rank >= FRONT || calm_beat(t) > BEAT_MOVING);
  if (!is_waiting(t) || t->op->lease->handoffs.most > 0 ||
      t->store->replicas > 0 || crowd || fence <= t->acquire.waited_fence ||
      end - now <= claim / 2) {
    dlk_redis_queue_refresh(t);
    return;
  }
  dlk_redis_try_hold(t)->crowded = true;
  dlk_redis_granted(t, fence, now, end);
}

void dlk_redis_queue_refresh(struct dlk_redis_try *t) {
  if (t->op->ending != DLK_OK || t->step->aim == DLK_REDIS_TO_KEEP)
    return; /* it leaves, or holds */
  if (t->call.busy)
    t->acquire.news = true;
  else
    ask(t);
}
