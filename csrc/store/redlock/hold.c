/* A hold: rounds of votes, renewals, repair. count.c has the counting.
 *
 *   round    one vote is asked of each node, all at once
 *   repair   a vote that is asked for a hold which has q others
 *   given back  released, or it never came; its answer may come later
 *
 * I1 The round is won with q votes and told at once. Later votes join the hold.
 * I2 The round is lost when q votes cannot come any more, or not in time. All
 *    votes are given back before the next one, those without an answer as well:
 *    when it comes, the vote is released.
 * I3 A renewal never makes a vote. A repair does, while q other votes stand
 *    (count.c, I1): so nobody else holds the key.
 * I4 The hold is lost as soon as fewer than q votes can stand.
 * I5 A wait needs no message. Each node is asked to tell of a free key; the
 *    next round begins when q nodes did, or after a time. Only that time counts
 *    while fewer than q nodes vote, since the key is free on the others.
 * I6 Pauses are random, and double with each round that others split with us:
 *    equal pauses would split the votes for ever. A beat without news ends the
 *    doubling: nobody gave back, so a holder has settled.
 * I7 An attach that fails gives each vote back to the string it came from.
 *    Behind a grant nobody needs the string: a vote that does not come in time
 *    is released, the string's as ours.
 * I8 The first word of a break ends the hold. Else a repair could make a vote
 *    anew before the other nodes' words come.
 *
 * Slow node: its vote comes late, and joins (I1) or is released (I2). Its old
 * renewal may answer in a later one: the vote's end is that of its own request.
 * Cancel against grant: the votes are given back, unless the grant was told. */
#include "store/redlock/hold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis/redis.h"
#include "store/redlock/parts.h"

#define TYPE (&dlk_redis_store)
#define FIRST_BEAT (50 * DLK_MS)

static void begin(struct dlk_redlock_hold *h);
static void look(struct dlk_redlock_hold *h);
static void voted(struct dlk_redlock_ask *a, const struct dlk_error *err);

/* ---- the end of a vote ---- */

static void gone(struct dlk_redlock_vote *v) {
  if (v->leaves && v->round == v->hold->round)
    v->hold->away--;
  v->leaves = false;
}

static void released(struct dlk_redlock_ask *a, const struct dlk_error *err) {
  struct dlk_redlock_vote *v = a->vote;
  struct dlk_redlock_hold *h = v->hold;
  (void)err;
  gone(v);
  look(h);
  dlk_redlock_vote_unref(v);
}

/* The node's store goes on with it, until the vote ends by itself. */
static void late(struct dlk_timer *timer, int64_t now) {
  (void)now;
  dlk_redlock_ask_cancel(DLK_CONTAINER(timer, struct dlk_redlock_ask, timer));
}

/* Without memory it is left to its end, and its node still knows its lease. */
static void release(struct dlk_redlock_vote *v) {
  struct dlk_host *host = v->hold->s->host;
  struct dlk_redlock_ask *a = dlk_redlock_ask_new(
      v->node, DLK_OP_RELEASE, v->lease.key, v->lease.key_len);
  v->refs++;
  if (!a) {
    gone(v);
    return;
  }
  if (v->hold->attaches) {
    const struct dlk_lease *string = &v->hold->copy;
    struct dlk_redlock_part part = dlk_redlock_part(
        string->key, string->key_len, v->hold->s->n, v->node->number);
    a->op.text = part.text;
    a->op.text_len = part.len;
  }
  a->vote = v;
  a->op.lease = &v->lease;
  a->op.unused = true;
  a->answer = released;
  a->timer.fire = late;
  host->timer_set(host, &a->timer, a->op.deadline);
  dlk_redlock_ask_send(a);
}

void dlk_redlock_take(struct dlk_redlock_vote *v) {
  if (!v->counts)
    return;
  v->hold->votes[v->node->number] = NULL;
  v->counts = false;
  dlk_redlock_vote_unref(v);
}

/* What the node has of it is given back. */
static void give_back(struct dlk_redlock_vote *v) {
  struct dlk_redlock_hold *h = v->hold;
  v->refs++;
  dlk_redlock_take(v);
  v->leaves = v->round == h->round;
  h->away += v->leaves;
  if (v->ask)
    dlk_redlock_ask_cancel(v->ask);
  else
    release(v);
  dlk_redlock_vote_unref(v);
}

static void give_all_back(struct dlk_redlock_hold *h) {
  h->guard++;
  for (unsigned i = 0; i < h->s->n; i++)
    if (h->votes[i])
      give_back(h->votes[i]);
  h->guard--;
}

/* ---- votes ---- */

static bool is_held(const struct dlk_redlock_vote *v) {
  return v && !v->ask;
}

/* It is held, and has the fence. */
static bool is_ready(const struct dlk_redlock_vote *v) {
  return is_held(v) && v->fresh;
}

/* One under way keeps its ttl, by which its answer counts. */
static void renew(struct dlk_redlock_vote *v) {
  struct dlk_lease *lease = &v->lease;
  if (v->renewing)
    return;
  v->renewing = true;
  v->refs++;
  lease->ttl = v->hold->copy.ttl;
  lease->fence = v->hold->fence;
  TYPE->renew(v->node->store, &lease, 1);
}

static void refused(struct dlk_redlock_hold *h, const struct dlk_redlock_ask *a,
                    const struct dlk_error *err) {
  if (err->code == DLK_BUSY || err->code == DLK_LOST) {
    h->refused++;
    h->behind = h->behind || a->op.fence == DLK_REDIS_SMALLER;
    if (h->op && a->op.holder[0])
      memcpy(h->op->holder, a->op.holder, sizeof a->op.holder);
    return;
  }
  dlk_redlock_failed(&h->failures, err);
  if (a->op.fence == DLK_REDIS_OTHER_LIST) {
    h->failures.error = *err;
    h->wrong = true;
  }
}

static void voted(struct dlk_redlock_ask *a, const struct dlk_error *err) {
  struct dlk_redlock_vote *v = a->vote;
  struct dlk_redlock_hold *h = v->hold;
  v->ask = NULL;
  if (!err) {
    v->end = dlk_lease_deadline(v->lease.sent, v->lease.ttl);
    v->value = v->lease.fence;
    v->lease.fence = h->fence;
    v->fresh = h->phase == DLK_REDLOCK_HELD || v->value == h->fence;
    if (!v->counts)
      release(v);
    else if (h->phase == DLK_REDLOCK_RAISING && v->value < h->fence)
      renew(v); /* a larger value is none of W's (count.c) */
  } else {
    if (v->counts || (v->round == h->round && err->code == DLK_BUSY))
      refused(h, a, err);
    dlk_redlock_take(v);
    gone(v);
  }
  look(h);
  dlk_redlock_vote_unref(v);
}

/* The node's store found the key in the string: messages may name it. */
static void name_key(struct dlk_redlock_hold *h, const struct dlk_lease *vote) {
  h->op->key = h->op->lease->key + (vote->key - h->text);
  h->op->key_len = vote->key_len;
}

/* floor: 0, or the fence of the hold that is repaired. */
static void ask_vote(struct dlk_redlock_hold *h, unsigned i, int64_t floor) {
  struct dlk_redlock_part key = {h->copy.key, h->copy.key_len};
  if (h->attaches)
    key = dlk_redlock_part(key.text, key.len, h->s->n, i);
  if (key.len == 0) {
    h->refused++;
    return;
  }
  struct dlk_redlock_node *node = &h->s->nodes[i];
  struct dlk_redlock_vote *v = calloc(1, sizeof *v + TYPE->lease_size);
  struct dlk_redlock_ask *a =
      v ? dlk_redlock_ask_new(node,
                              h->attaches ? DLK_OP_ATTACH : DLK_OP_ACQUIRE,
                              key.text, key.len)
        : NULL;
  if (!a) {
    free(v);
    dlk_redlock_failed(&h->failures, NULL);
    return;
  }
  v->lease = h->copy;
  v->lease.key = key.text;
  v->lease.key_len = key.len;
  v->lease.data = v->data;
  v->lease.fence = floor;
  if (floor > 0)
    v->lease.min_hold -= dlk_redlock_now(h->s) - h->began;
  v->hold = h;
  v->node = node;
  v->ask = a;
  v->refs = 3; /* ours too: it may end at once */
  v->round = h->round;
  v->counts = true;
  h->refs++;
  h->votes[i] = v;
  dlk_list_append(&h->s->votes, &v->entry);
  a->vote = v;
  a->answer = voted;
  a->op.lease = &v->lease;
  a->op.limit = h->s->n;
  a->op.renew = h->attaches && h->op->renew;
  a->op.text = h->attaches ? key.text : h->name;
  a->op.text_len = h->attaches ? key.len : DLK_REDIS_NAME;
  dlk_redlock_ask_send(a);
  if (h->attaches && v->lease.key_len < key.len)
    name_key(h, &v->lease);
  dlk_redlock_vote_unref(v);
}

/* ---- the facade's ---- */

static void renewal_over(struct dlk_redlock_vote *v) {
  struct dlk_redlock_hold *h = v->hold;
  bool was = v->renewing;
  v->renewing = false;
  h->refs++;
  if (!h->s->stopping)
    look(h);
  if (was)
    dlk_redlock_vote_unref(v);
  dlk_redlock_hold_unref(h);
}

static struct dlk_redlock_vote *vote_of(struct dlk_lease *lease) {
  return (struct dlk_redlock_vote *)(void *)lease;
}

static void renewed(struct dlk_host *host, struct dlk_lease *lease,
                    int64_t sent) {
  struct dlk_redlock_vote *v = vote_of(lease);
  (void)host;
  int64_t end = dlk_lease_deadline(sent, lease->ttl);
  if (sent >= v->cut || end < v->end)
    v->end = end;
  v->fresh = true;
  renewal_over(v);
}

static void not_renewed(struct dlk_host *host, struct dlk_lease *lease) {
  (void)host;
  renewal_over(vote_of(lease));
}

void dlk_redlock_drop(struct dlk_redlock_vote *v, const char *why) {
  struct dlk_redlock_hold *h = v->hold;
  h->refs++;
  h->why = why;
  dlk_redlock_take(v);
  look(h);
  dlk_redlock_hold_unref(h);
}

static void lost(struct dlk_host *host, struct dlk_lease *lease,
                 const char *why) {
  struct dlk_redlock_vote *v = vote_of(lease);
  (void)host;
  v->refs++;
  v->hold->refused += v->hold->phase == DLK_REDLOCK_RAISING;
  dlk_redlock_drop(v, why);
  renewal_over(v);
  dlk_redlock_vote_unref(v);
}

static void revoked(struct dlk_host *host, struct dlk_lease *lease) {
  struct dlk_redlock_hold *h = vote_of(lease)->hold;
  (void)host;
  if (h->lease)
    h->s->host->revoked(h->s->host, h->lease);
}

const struct dlk_host dlk_redlock_votes = {.renewed = renewed,
                                           .renew_failed = not_renewed,
                                           .lost = lost,
                                           .revoked = revoked};

/* ---- the end of a round ---- */

static void timer_at(struct dlk_redlock_hold *h, int64_t at) {
  h->s->host->timer_set(h->s->host, &h->timer, at);
}

static void cancel_news(struct dlk_redlock_hold *h) {
  h->guard++;
  for (unsigned i = 0; i < h->s->n; i++)
    dlk_redlock_ask_cancel(h->news[i]);
  h->guard--;
}

static void end(struct dlk_redlock_hold *h, const struct dlk_error *err) {
  struct dlk_op *op = h->op;
  h->op = NULL;
  h->phase = DLK_REDLOCK_OVER;
  cancel_news(h);
  h->s->host->timer_clear(h->s->host, &h->timer);
  dlk_redlock_hold_unref(h);
  ((struct dlk_redlock_lease *)op->lease->data)->hold = NULL;
  h->s->host->done(h->s->host, op, err);
}

/* Fewer than q nodes have answered: why. */
static void unheard(const struct dlk_redlock_hold *h, struct dlk_error *err) {
  const struct dlk_redlock *s = h->s;
  char key[DLK_QUOTED_MAX];
  bool cut = h->op->ending != DLK_OK && h->failures.count < h->before.count;
  const struct dlk_redlock_failures *f = cut ? &h->before : &h->failures;
  const char *why = f->count > 0 ? strstr(f->error.text, ": ") : NULL;
  dlk_error_set(err, dlk_redlock_failure(s, f),
                "%s: fewer than %u of %u nodes voted%s",
                dlk_quote(key, h->op->key, h->op->key_len), s->q, s->n,
                why ? why : ": the others are silent");
}

static int64_t below(struct dlk_redlock *s, int64_t most) {
  uint32_t bits;
  s->host->random(s->host, &bits, sizeof bits);
  return (int64_t)((double)most * bits / ((double)UINT32_MAX + 1));
}

static void look_at_news(struct dlk_redlock_hold *h) {
  unsigned free_nodes = 0;
  for (unsigned i = 0; i < h->s->n; i++)
    free_nodes += h->free[i];
  if (h->woken || h->unheard || free_nodes < h->s->q)
    return;
  h->woken = true;
  timer_at(h,
           dlk_redlock_now(h->s) +
               below(h->s, dlk_redlock_pause(h->took, h->splits, h->behind)));
}

static void heard(struct dlk_redlock_ask *a, const struct dlk_error *err) {
  struct dlk_redlock_hold *h = a->owner;
  h->news[a->node->number] = NULL;
  h->free[a->node->number] = !err;
  look(h);
  dlk_redlock_hold_unref(h);
}

static void ask_news(struct dlk_redlock_hold *h, unsigned i) {
  struct dlk_redlock_ask *a = dlk_redlock_ask_new(
      &h->s->nodes[i], DLK_OP_CHANGE, h->copy.key, h->copy.key_len);
  if (!a)
    return; /* the timer will do */
  a->op.fence = DLK_REDIS_ANYBODY;
  a->owner = h;
  a->answer = heard;
  h->refs++;
  h->news[i] = a;
  dlk_redlock_ask_send(a);
}

static void wait(struct dlk_redlock_hold *h) {
  h->phase = DLK_REDLOCK_WAITING;
  h->woken = false;
  h->splits = h->yes > 0 ? h->splits + 1 : 0;
  h->beat = h->beat == 0            ? FIRST_BEAT
            : 2 * h->beat < DLK_SEC ? 2 * h->beat
                                    : DLK_SEC;
  timer_at(h, dlk_redlock_now(h->s) + h->beat / 2 + below(h->s, h->beat / 2));
  h->guard++;
  for (unsigned i = 0; i < h->s->n; i++) {
    h->free[i] = false;
    if (!h->news[i])
      ask_news(h, i);
  }
  h->guard--;
}

/* Nothing of the round is left, or it is left to its own end. */
static void cleared(struct dlk_redlock_hold *h) {
  struct dlk_error err = {.code = DLK_BUSY};
  enum dlk_code code = h->op->ending;
  char key[DLK_QUOTED_MAX];
  if (h->op->kind == DLK_OP_ATTACH)
    dlk_error_set(&err, DLK_LOST,
                  "%s: the detached lease expired, was attached, released or "
                  "broken",
                  dlk_quote(key, h->op->key, h->op->key_len));
  unsigned q = h->s->q; /* no answer could bring an attach q votes */
  if (h->attaches ? h->s->n - h->refused < q : h->yes + h->refused >= q) {
    h->unheard = false;
  } else if (code == DLK_OK) { /* else the round was cut short */
    h->unheard = true;
    h->before = h->failures;
  }
  bool late = code == DLK_TIMEOUT || code == DLK_UNAVAILABLE;
  bool ours = code == DLK_OK; /* else the caller has given up */
  bool final = dlk_redlock_failure(h->s, &h->failures) != DLK_UNAVAILABLE;
  if (ours && h->wrong) {
    err = h->failures.error;
  } else if (h->unheard && (late || (ours && (final || !h->op->wait)))) {
    unheard(h, &err);
  } else if (!ours) {
    err.code = code;
  } else if (h->op->wait) {
    wait(h);
    look(h);
    return;
  }
  end(h, &err);
}

static void fail(struct dlk_redlock_hold *h) {
  h->wrong = h->wrong || dlk_redlock_has_twins(h->s, &h->failures.error);
  h->took = dlk_redlock_now(h->s) - h->began;
  bool raised = h->phase == DLK_REDLOCK_RAISING;
  if (raised && h->failures.count == 0) { /* a renewal does not say why */
    struct dlk_error err;
    dlk_error_set(&err, DLK_UNAVAILABLE,
                  "raise: the others did not raise their counters");
    dlk_redlock_failed(&h->failures, &err);
  }
  h->yes = 0;
  for (unsigned i = 0; i < h->s->n; i++)
    h->yes += raised ? is_ready(h->votes[i]) : is_held(h->votes[i]);
  if (h->refused == 0 && h->op->ending == DLK_OK)
    h->op->holder[0] = '\0';
  h->phase = DLK_REDLOCK_CLEARING;
  timer_at(h, dlk_redlock_now(h->s) + h->s->node_timeout);
  give_all_back(h); /* also before a pause, or rounds would split for ever */
}

/* ---- the end of a hold ---- */

void dlk_redlock_leave(struct dlk_redlock_hold *h, const char *why) {
  struct dlk_lease *lease = h->lease;
  struct dlk_host *host = h->s->host;
  bool renewing = h->renewing;
  h->lease = NULL;
  h->renewing = false;
  h->phase = DLK_REDLOCK_OVER;
  host->timer_clear(host, &h->timer);
  ((struct dlk_redlock_lease *)lease->data)->hold = NULL;
  give_all_back(h);
  dlk_redlock_hold_unref(h);
  if (why)
    host->lost(host, lease, why);
  else if (renewing)
    host->renew_failed(host, lease);
}

/* ---- what the votes say ---- */

static int64_t deadline_of(const struct dlk_redlock_hold *h) {
  int64_t ends[DLK_REDLOCK_NODES];
  unsigned n = 0;
  for (unsigned i = 0; i < h->s->n; i++)
    if (is_held(h->votes[i]))
      ends[n++] = h->votes[i]->end;
  return dlk_redlock_deadline(h->s->q, ends, n);
}

int64_t dlk_redlock_sent(const struct dlk_redlock_hold *h, int64_t ttl) {
  int64_t at = deadline_of(h);
  bool shifts = at != DLK_FOREVER && at != INT64_MIN;
  return shifts ? at - dlk_lease_deadline(0, ttl) : at;
}

/* The lease is what the string said. */
static void take_over(struct dlk_redlock_hold *h, struct dlk_op *op) {
  struct dlk_redlock_lease *own = op->lease->data;
  unsigned i = 0;
  while (!is_held(h->votes[i]))
    i++;
  const struct dlk_lease *vote = &h->votes[i]->lease;
  if (vote->owner != h->owner)
    snprintf(h->owner, sizeof h->owner, "%s", vote->owner);
  memcpy(own->owner, h->owner, sizeof own->owner);
  op->lease->owner = own->owner;
  op->key = op->lease->key += vote->key - h->text;
  op->key_len = op->lease->key_len = h->copy.key_len = vote->key_len;
  h->copy.key = vote->key;
  op->lease->ttl = h->copy.ttl = vote->ttl;
}

static void granted(struct dlk_redlock_hold *h) {
  struct dlk_op *op = h->op;
  struct dlk_redlock *s = h->s;
  h->op = NULL;
  h->lease = op->lease;
  if (op->kind == DLK_OP_ATTACH)
    take_over(h, op);
  h->attaches = false;
  h->lease->fence = h->fence;
  h->lease->sent = dlk_redlock_sent(h, h->lease->ttl);
  h->phase = DLK_REDLOCK_HELD;
  h->why = "fewer than a majority of the nodes have it";
  for (unsigned i = 0; i < s->n; i++)
    if (is_held(h->votes[i]))
      h->votes[i]->lease.fence = h->fence;
    else if (h->votes[i])
      h->votes[i]->ask->op.unused = true; /* I7 */
  timer_at(h, h->began + s->node_timeout);
  h->began = dlk_redlock_now(s);
  cancel_news(h);
  s->host->done(s->host, op, NULL);
}

/* Chooses the fence, and raises the counters that are behind. */
static void number(struct dlk_redlock_hold *h) {
  int64_t values[DLK_REDLOCK_NODES];
  unsigned n = 0;
  bool agreed;
  for (unsigned i = 0; i < h->s->n; i++)
    if (is_held(h->votes[i]))
      values[n++] = h->votes[i]->value;
  h->fence =
      dlk_redlock_fence(h->s->q, values, n, dlk_redlock_clock(), &agreed);
  h->phase = DLK_REDLOCK_RAISING;
  h->guard++;
  for (unsigned i = 0; i < h->s->n; i++) {
    struct dlk_redlock_vote *v = h->votes[i];
    if (!is_held(v))
      continue;
    v->fresh = v->value == h->fence;
    if (!agreed && !v->fresh)
      renew(v);
  }
  h->guard--;
}

static void look_at_round(struct dlk_redlock_hold *h) {
  unsigned held = 0, open = 0, ready = 0, q = h->s->q;
  for (unsigned i = 0; i < h->s->n; i++) {
    held += is_held(h->votes[i]);
    open += h->votes[i] && h->votes[i]->ask;
  }
  enum dlk_redlock_verdict verdict = dlk_redlock_judge(q, held, open);
  if (h->phase == DLK_REDLOCK_VOTING && verdict == DLK_REDLOCK_WON) {
    if (h->wrong || dlk_redlock_has_twins(h->s, NULL))
      verdict = DLK_REDLOCK_LOST;
    else
      number(h);
  }
  if (h->phase == DLK_REDLOCK_RAISING) {
    open = 0;
    for (unsigned i = 0; i < h->s->n; i++) {
      const struct dlk_redlock_vote *v = h->votes[i];
      if (!v)
        continue;
      ready += is_ready(v);
      open += v->ask || (!v->fresh && v->renewing);
    }
    verdict = dlk_redlock_judge(q, ready, open);
    if (verdict == DLK_REDLOCK_WON)
      granted(h);
  }
  if (verdict == DLK_REDLOCK_LOST)
    fail(h);
}

static void look_at_hold(struct dlk_redlock_hold *h) {
  unsigned held = 0, fresh = 0, open = 0, q = h->s->q;
  for (unsigned i = 0; i < h->s->n; i++) {
    const struct dlk_redlock_vote *v = h->votes[i];
    held += is_held(v);
    fresh += is_ready(v);
    open += is_held(v) && !v->fresh && v->renewing;
  }
  if (held < q || strcmp(h->why, DLK_REDIS_BROKEN) == 0) { /* I8 */
    dlk_redlock_leave(h, h->why);
    return;
  }
  enum dlk_redlock_verdict verdict = dlk_redlock_judge(q, fresh, open);
  if (!h->renewing || verdict == DLK_REDLOCK_OPEN)
    return;
  h->renewing = false;
  if (verdict == DLK_REDLOCK_WON)
    h->s->host->renewed(h->s->host, h->lease,
                        dlk_redlock_sent(h, h->lease->ttl));
  else
    h->s->host->renew_failed(h->s->host, h->lease);
}

/* Looks whether enough votes are left. */
static void look(struct dlk_redlock_hold *h) {
  if (h->guard > 0 || h->s->stopping)
    return;
  h->refs++;
  bool news = false;
  for (unsigned i = 0; i < h->s->n; i++)
    news = news || h->news[i];
  if (h->phase == DLK_REDLOCK_VOTING || h->phase == DLK_REDLOCK_RAISING)
    look_at_round(h);
  if (h->phase == DLK_REDLOCK_WAITING)
    look_at_news(h);
  else if (h->phase == DLK_REDLOCK_HELD)
    look_at_hold(h);
  else if (h->phase == DLK_REDLOCK_CLEARING && h->away == 0 &&
           !(news && h->op->ending != DLK_OK))
    cleared(h);
  dlk_redlock_hold_unref(h);
}

/* ---- time ---- */

static void on_timer(struct dlk_timer *timer, int64_t now) {
  struct dlk_redlock_hold *h =
      DLK_CONTAINER(timer, struct dlk_redlock_hold, timer);
  (void)now;
  h->refs++;
  if (h->phase == DLK_REDLOCK_WAITING) {
    if (!h->woken)
      h->splits = 0; /* I6 */
    begin(h);
  } else if (h->phase == DLK_REDLOCK_CLEARING) {
    h->round++; /* late ones are of an older round */
    h->away = 0;
    cleared(h);
  } else if (h->phase == DLK_REDLOCK_HELD) {
    for (unsigned i = 0; i < h->s->n; i++)
      if (h->votes[i] && h->votes[i]->ask)
        dlk_redlock_ask_cancel(h->votes[i]->ask);
    if (h->phase == DLK_REDLOCK_HELD && h->renewing) {
      h->renewing = false;
      h->s->host->renew_failed(h->s->host, h->lease);
    }
  } else if (h->phase != DLK_REDLOCK_OVER) {
    fail(h);
    look(h);
  }
  dlk_redlock_hold_unref(h);
}

static void begin(struct dlk_redlock_hold *h) {
  h->phase = DLK_REDLOCK_VOTING;
  h->round++;
  h->away = h->refused = h->yes = 0;
  h->failures.count = h->failures.lasting = 0;
  h->behind = h->wrong = false;
  h->fence = 0;
  h->began = dlk_redlock_now(h->s);
  timer_at(h, h->began + dlk_redlock_patience(h->s));
  h->guard++;
  for (unsigned i = 0; i < h->s->n; i++)
    ask_vote(h, i, 0);
  h->guard--;
  look(h);
}

/* ---- the ways in ---- */

void dlk_redlock_acquire(struct dlk_redlock *s, struct dlk_op *op) {
  struct dlk_error err = {.code = DLK_OK};
  struct dlk_redlock_hold *h = NULL;
  if (op->kind == DLK_OP_ATTACH) {
    op->key_len = 0; /* a token may be in it */
    (void)dlk_redlock_parts_check(op->text, op->text_len, s->n, &err);
  }
  if (err.code == DLK_OK && !(h = dlk_redlock_hold_new(s, op->lease)))
    dlk_error_set(&err, DLK_UNAVAILABLE, "out of memory");
  if (!h) {
    s->host->done(s->host, op, &err);
    return;
  }
  ((struct dlk_redlock_lease *)op->lease->data)->hold = h;
  h->op = op;
  h->attaches = op->kind == DLK_OP_ATTACH;
  h->unheard = true;
  h->timer.fire = on_timer;
  begin(h);
}

void dlk_redlock_give_up(struct dlk_redlock *s, struct dlk_op *op) {
  struct dlk_redlock_hold *h = dlk_redlock_hold_of(op->lease);
  (void)s;
  if (!h || !h->op)
    return;
  h->refs++;
  h->guard++;
  if (h->phase == DLK_REDLOCK_WAITING) {
    h->phase = DLK_REDLOCK_CLEARING;
    timer_at(h, dlk_redlock_now(h->s) + h->s->node_timeout);
  } else if (h->phase != DLK_REDLOCK_CLEARING) {
    fail(h);
  }
  cancel_news(h);
  h->guard--;
  look(h);
  dlk_redlock_hold_unref(h);
}

void dlk_redlock_renew(void *store, struct dlk_lease *const *leases,
                       size_t count) {
  struct dlk_redlock *s = store;
  for (size_t n = 0; n < count; n++) {
    struct dlk_redlock_hold *h = dlk_redlock_hold_of(leases[n]);
    if (!h) {
      s->host->lost(s->host, leases[n], "it was lost");
      continue;
    }
    int64_t now = dlk_redlock_now(s);
    h->renewing = true;
    h->copy.ttl = leases[n]->ttl;
    timer_at(h, now + s->node_timeout);
    bool repairs = deadline_of(h) > now; /* I3 */
    h->guard++;
    for (unsigned i = 0; i < s->n; i++) {
      struct dlk_redlock_vote *v = h->votes[i];
      if (is_held(v)) {
        v->fresh = false;
        renew(v);
      } else if (!v && repairs) {
        ask_vote(h, i, h->fence);
      }
    }
    h->guard--;
    look(h);
  }
}
