/* Waiting: first come, first served, with direct hand-off.
 *
 * The script that we send (join, then refresh) gives the lock if it is ours
 * to have, and otherwise keeps our place. Whoever releases hands the lock to
 * the first of the queue that lives, for one claim (a second), and publishes
 * that to the waiter's channel. We start on that message, without another
 * round trip, when it cannot be an old one:
 * - its token is one that we wait for (each joining has its own),
 * - its fence is above the counter that our last `wait` was answered with, so
 *   the grant came after that answer, and
 * - more than half of a claim is left, counted from the sending of the request
 *   that was answered `wait`: the server cannot have granted before it read
 *   that, so the claim ends there later than here.
 * The hold then counts only until the claim ends by our count, and the engine
 * renews it for its ttl if it is held for long enough (engine/hold/renewal.c): the
 * renewal never makes a hold, so a claim that was broken or taken away
 * meanwhile ends as `lost`. A message that fails a condition, or that crosses a
 * request, only makes us refresh, and the script tells what is so.
 *
 * Some ask whatever the message says. Who shares the lock, and was behind the
 * first eight or in a queue that stood: thousands may be let in with it, and
 * all of them ask; its renewal would come behind that, when the claim is over.
 * Who wants to hand the lock on in its own process: the answer brings the
 * fences set aside for that, and says since when the next one of the queue is
 * there. And who counts on replicas: what they have of the grant is known of
 * what we write alone, and that script writes.
 *
 * Why each crossing is safe:
 * - Message lost, subscription lost: each refresh finds the grant ("got"), and
 *   each acknowledged subscription refreshes all waits. The subscription comes
 *   first, but who cannot have it asks without: the server then takes it for
 *   dead and gives its place to the next, so it comes in when it asks at a
 *   moment in which nobody before it listens, with its old order each time.
 * - Message before the answer to an older refresh: `news` is set, and that
 *   answer, if it still says wait, is followed by another refresh.
 * - Claim over before we refresh: the answer is "gone"; we join anew with a
 *   new token and our old order, so a message for the old token, however
 *   late, matches nothing that waits.
 * - Reply lost: the token's fate is unknown; we join anew likewise, and behind
 *   that it is taken back. The other way round whoever stands behind us would
 *   be handed what the old token holds: now the new one stands before them.
 * - Cancel crossing a grant: "got" ends the op well; after our own leave
 *   the server has handed the lock on.
 *
 * The order in the queue is what counts; that somebody lives is only a hint.
 * Who is taken for dead (nobody listens on its channel, or it was silent for
 * three of its beats) is dropped by whoever stands behind it, also while the
 * lock is held, and comes back with its order if it lives after all. When all
 * of them were silent at once it was the server that stood still: the marks of
 * those who listen are then believed once more (queue.lua), or the first one to
 * be back would pass all others.
 *
 * Refreshes are for surviving the dead (holders without release, waiters, the
 * server itself), not for progress: a third of a claim for the first ranks, and
 * for the head also when the holder's time is over. Behind them the beat grows
 * with the rank, or 10,000 waiters would keep the server busy: up to two
 * seconds in a queue that moves, and while it stands to as long as it stood,
 * two thirds of a ttl at most. Who just joined was believed for a second only,
 * without regard to its rank, so it asks again before that is over.
 *
 * Beats vary by a part of themselves, or those who came together would always
 * ask together. The longest one does not: each wait draws a moment of it, and
 * asks in that. So however often all of them asked at once (the server stood
 * still, the connection for messages is new), they are spread evenly again
 * within one beat. And whoever asks seldom does so at a tick of its client,
 * four times a second: what a client asks at one tick goes in one write, which
 * costs the server less than as many writes. */
#include "store/redis/recipe/wait.h"

#include <hiredis/hiredis.h>

#include "store/redis/op/orphan.h"
#include "store/redis/recipe/candidate.h"
#include "store/redis/wire/reply.h"

/* A hand-off is good for so long unless it is renewed. */
#define CLAIM DLK_SEC
#define FRONT 8u
#define BEAT_RANKS 4 /* behind the front, so many ranks for one BEAT more */
#define BEAT (CLAIM / 3)
#define BEAT_MOVING (2 * DLK_SEC) /* OFTEN in acquire.lua is three of them */
#define BEAT_MAX (20 * DLK_SEC)
#define TICK (DLK_SEC / 4)

/* The longest beat, in whole ticks: two thirds of a ttl, which a dead holder's
 * lock lasts at least. So whoever is right behind the dead of a process that
 * held the lock as well has found out when it is free. */
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

/* For how long to believe that we live: two of our beats may be late, and by
 * no more than those of a queue that moves. */
static int64_t belief_of(const struct dlk_redis_try *t) {
  int64_t beat = beat_of(t);
  return beat + 2 * (beat < BEAT_MOVING ? beat : BEAT_MOVING);
}

/* The queue stands for as long as our rank is much the same. */
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
  const struct dlk_redis_bid bid = {.how = t->placed ? "refresh" : "join",
                                    .claim = dlk_to_ms(claim_of(t)),
                                    .believed = dlk_to_ms(believed),
                                    .order = t->acquire.order,
                                    .handoffs = t->op->lease->handoffs.most};
  dlk_redis_acquire_args(t, &bid, out);
}

static const struct dlk_redis_step joining;

static void ask(struct dlk_redis_try *t) {
  t->acquire.news = false;
  t->store->host->timer_clear(t->store->host, &t->timer);
  dlk_redis_send(t, &joining);
}

/* ---- leaving ---- */

static void left(struct dlk_redis_try *t, const redisReply *reply) {
  if (dlk_redis_int(reply, 1, 0) == 1) /* more dead waiters */
    dlk_redis_queue_leave(t);
  else
    dlk_redis_give_up(t);
}

void dlk_redis_leave_all(struct dlk_redis_try *t, struct dlk_buf *out) {
  dlk_redis_leave_args(out, &dlk_redis_try_hold(t)->token, 0);
}

static const struct dlk_redis_step leaving = {.aim = DLK_REDIS_TO_LEAVE,
                                              .script = DLK_REDIS_LEAVE,
                                              .args = dlk_redis_leave_all,
                                              .answer = left,
                                              .back = dlk_redis_token_back};

void dlk_redis_queue_leave(struct dlk_redis_try *t) {
  t->store->host->timer_clear(t->store->host, &t->timer);
  dlk_redis_send(t, &leaving);
}

/* ---- answers ---- */

/* Nobody who queues had come before a moment of ours, if the first of them came
 * so many us before the answer (below 0: there is none; with a grant that sets
 * no fences aside it is not said): the server answered after we had sent. That
 * stays true when the grant is given back and the lock asked for anew. */
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

/* A client has ticks of its own, or all clients would ask at once. */
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
    dlk_redis_queue_leave(t);
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

/* What the server says that it set aside, which may be anything: not more than
 * it was asked for. */
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

/* The new token is to stand before the old one is taken back. */
static void join_anew(struct dlk_redis_try *t) {
  dlk_redis_replace_token(t, ask);
}

static const struct dlk_redis_step joining = {.aim = DLK_REDIS_TO_JOIN,
                                              .script = DLK_REDIS_ACQUIRE,
                                              .args = args,
                                              .answer = answered,
                                              .again = dlk_redis_queue,
                                              .anew = join_anew,
                                              .back = dlk_redis_token_back,
                                              .leave = dlk_redis_queue_leave};

/* ---- the way in ---- */

/* The subscription could not be had, and more attempts follow: the timer asks
 * without it. */
static void wait_on_timer(struct dlk_redis_try *t) {
  (void)t;
}

static const struct dlk_redis_step subscribing = {.aim = DLK_REDIS_TO_SUBSCRIBE,
                                                  .again = wait_on_timer,
                                                  .back = dlk_redis_token_back,
                                                  .leave =
                                                      dlk_redis_queue_leave};

void dlk_redis_queue(struct dlk_redis_try *t) {
  struct dlk_redis *s = t->store;
  if (dlk_list_empty(&t->entry))
    dlk_list_append(&s->waits, &t->entry);
  s->link->subscribe(s->link, t->call.req.slot);
  if (s->link->subscribed(s->link, t->call.req.slot)) {
    ask(t);
    return;
  }
  /* `subscribed` goes on from here, or else the timer. */
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
  return t->step == &joining && !t->call.busy;
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
