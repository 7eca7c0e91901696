/* A hold: one lease that we have, or had. lease.h draws its states.
 *
 * I1  Our deadline counts from before the request was sent, so the server's is
 *     never earlier.
 * I2  A hold never becomes held again. Any thread that sees its deadline pass
 *     sets `expired`; a later renewal changes nothing.
 * I3  Its end is counted once, when it leaves HELD.
 * I4  A loss is told once, in lose(): when a held one ends, or its release is
 *     answered. LOST is for ever.
 * I5  A release without an answer tells of no loss, nor does one after a loss.
 * I6  min_hold is promised to the taker, so it goes with `given`: other grants
 *     are released without it (request.c). An attached hold is given.
 * I7  A hold whose last handle was collected is not released: its program may
 *     count on it.
 *
 * References: each Lua handle and ticket, being held, a renewal, an owed
 * release, the post `drop`. */
#include "engine/hold/lease.h"

#include <stdio.h>
#include <string.h>

#include "loop/owner.h"

#define DAY (86400 * DLK_SEC)

static _Atomic uint64_t last_id;

static const char *put(char **at, const char *s, size_t n) {
  char *to = *at;
  if (n)
    memcpy(to, s, n);
  to[n] = '\0';
  *at += n + 1;
  return to;
}

static void drop_posted(struct dlk_post *post) {
  struct dlk_hold *h = DLK_CONTAINER(post, struct dlk_hold, drop);
  if (atomic_load(&h->state) == DLK_HOLD_DROPPING) {
    dlk_hold_give_back(h);
  } else if (dlk_hold_is_held(h)) {
    dlk_hold_schedule(h);
    dlk_wakeup_note(&h->engine->loop.wakeup); /* the program may be told */
  }
  dlk_hold_unref(h);
}

struct dlk_hold *dlk_hold_new(struct dlk_engine *e,
                              const struct dlk_request *r) {
  const char *owner = r->owner ? r->owner : e->name;
  size_t data = dlk_pool_aligned(sizeof(struct dlk_hold));
  size_t text = data + dlk_pool_aligned(e->type->lease_size);
  size_t size = text + r->key_len + strlen(owner) + r->value_len + 3;
  struct dlk_hold *h = dlk_pool_take(&e->held.spare, size);
  if (!h)
    return NULL;
  h->size = (uint32_t)size;
  h->engine = e;
  dlk_engine_ref(e);
  atomic_init(&h->refs, 1);
  atomic_init(&h->handles, 1);
  dlk_list_init(&h->link);
  dlk_list_init(&h->waiters);
  dlk_list_init(&h->detaches);
  h->drop.run = drop_posted;
  h->user = r->user;
  h->max_hold = r->max_hold;
  h->cut_to = DLK_FOREVER;
  h->asked.renew = r->renew;
  h->asked.provisional = r->provisional;
  atomic_init(&h->given, r->kind == DLK_OP_ATTACH);
  h->lease.ttl = r->ttl;
  h->lease.min_hold = r->min_hold;
  h->asked.hands_on =
      r->want.units == 0 && !r->value && r->renew && r->min_hold == 0;
  h->asked.unfair = h->asked.hands_on && r->handoffs > 0;
  h->asked.owner = r->owner != NULL;
  h->lease.handoffs.most = h->asked.unfair ? r->handoffs : 0;
  dlk_hold_set_want(h, r->want);
  h->lease.data = (char *)h + data;
  char *at = (char *)h + text;
  h->lease.key = put(&at, r->key, r->key_len);
  h->lease.key_len = r->key_len;
  h->lease.owner = put(&at, owner, strlen(owner));
  if (r->value) {
    h->lease.value = put(&at, r->value, r->value_len);
    h->lease.value_len = r->value_len;
  }
  return h;
}

struct dlk_hold *dlk_hold_again(const struct dlk_hold *old) {
  const struct dlk_lease *l = &old->lease;
  const struct dlk_request r = {.user = old->user,
                                .kind = DLK_OP_ACQUIRE,
                                .key = l->key,
                                .key_len = l->key_len,
                                .want = l->want,
                                .renew = old->asked.renew,
                                .provisional = old->asked.provisional,
                                .handoffs =
                                    old->asked.unfair ? l->handoffs.most : 0,
                                .ttl = l->ttl,
                                .max_hold = old->max_hold,
                                .min_hold = l->min_hold,
                                .owner = old->asked.owner ? l->owner : NULL,
                                .value = l->value,
                                .value_len = l->value_len};
  return dlk_hold_new(old->engine, &r);
}

void dlk_hold_ref(struct dlk_hold *h) {
  dlk_count_add(&h->refs);
}

void dlk_hold_unref(struct dlk_hold *h) {
  if (!dlk_count_drop(&h->refs))
    return;
  struct dlk_engine *e = h->engine;
  dlk_pool_give(&e->held.spare, h, h->size);
  dlk_engine_unref(e);
}

/* ---- what any thread may ask ---- */

const struct dlk_lease *dlk_hold_lease(const struct dlk_hold *h) {
  return &h->lease;
}

struct dlk_engine *dlk_hold_engine(const struct dlk_hold *h) {
  return h->engine;
}

uint64_t dlk_hold_id(const struct dlk_hold *h) {
  return h->id;
}

static int64_t end_of(struct dlk_hold *h) {
  int64_t own = atomic_load_explicit(&h->deadline, memory_order_acquire);
  int64_t all = atomic_load(&h->engine->held.horizon);
  return own < all ? own : all;
}

static int64_t left_of(struct dlk_hold *h) {
  if (atomic_load(&h->expired))
    return 0;
  int64_t left = end_of(h) - dlk_clock_now();
  if (left > 0)
    return left;
  atomic_store(&h->expired, true);
  return 0;
}

int64_t dlk_hold_remaining(struct dlk_hold *h) {
  int state = atomic_load(&h->state);
  bool ours = state == DLK_HOLD_HELD || state == DLK_HOLD_COLLECTED;
  return ours ? left_of(h) : 0;
}

int64_t dlk_hold_ttl(const struct dlk_hold *h) {
  return atomic_load(&h->ttl);
}

struct dlk_want dlk_hold_want(const struct dlk_hold *h) {
  uint64_t w = atomic_load(&h->want);
  return (struct dlk_want){(uint32_t)(w >> 32), (uint32_t)w};
}

bool dlk_hold_revoked(const struct dlk_hold *h) {
  return atomic_load(&h->revoked);
}

bool dlk_hold_is_lost(struct dlk_hold *h) {
  switch (atomic_load(&h->state)) {
  case DLK_HOLD_HELD:
  case DLK_HOLD_COLLECTED:
    return left_of(h) == 0;
  case DLK_HOLD_DROPPING:
    return atomic_load(&h->expired);
  case DLK_HOLD_LOST:
    return true;
  default:
    return false;
  }
}

/* Why a deadline has passed. */
static const char *passed_why(const struct dlk_hold *h, int64_t now) {
  int64_t end = atomic_load(&h->deadline);
  return end >= h->max_end ? "max_hold has passed"
         : now < end       ? "the session's deadline has passed"
                           : "its ttl has passed";
}

const char *dlk_hold_why(const struct dlk_hold *h) {
  const char *why = atomic_load_explicit(&h->ended, memory_order_acquire);
  return why ? why : passed_why(h, dlk_clock_now());
}

bool dlk_hold_renews(const struct dlk_hold *h) {
  return h->asked.renew;
}

int64_t dlk_hold_min_left(const struct dlk_hold *h) {
  int64_t end = dlk_time_add(h->granted_at, h->lease.min_hold);
  int64_t left = end - dlk_clock_now();
  return left > 0 ? left : 0;
}

void dlk_hold_give(struct dlk_hold *h) {
  atomic_store(&h->given, true);
}

void dlk_hold_take_back(struct dlk_hold *h) {
  atomic_store(&h->given, false);
}

static bool drop(struct dlk_hold *h, int from, enum dlk_hold_state to) {
  if (!atomic_compare_exchange_strong(&h->state, &from, (int)to))
    return false;
  dlk_hold_ref(h);
  if (!dlk_owner_post(&h->engine->loop, &h->drop, true))
    dlk_hold_unref(h);
  return true;
}

void dlk_hold_release_later(struct dlk_hold *h) {
  if (!drop(h, DLK_HOLD_HELD, DLK_HOLD_DROPPING))
    drop(h, DLK_HOLD_COLLECTED, DLK_HOLD_DROPPING);
}

bool dlk_hold_collected(struct dlk_hold *h) {
  return atomic_load(&h->given) && dlk_hold_remaining(h) > 0 &&
         drop(h, DLK_HOLD_HELD, DLK_HOLD_COLLECTED);
}

/* ---- by the loop's owner ---- */

/* For people: nothing else reads `want` and `ttl`. */
void dlk_hold_set_want(struct dlk_hold *h, struct dlk_want want) {
  h->lease.want = want;
  atomic_store_explicit(&h->want, (uint64_t)want.units << 32 | want.cap,
                        memory_order_relaxed);
}

static void set_deadline(struct dlk_hold *h) {
  int64_t at = dlk_lease_deadline(h->lease.sent, h->lease.ttl);
  if (h->lease.claim && h->lease.claim < at)
    at = h->lease.claim;
  if (h->max_end < at)
    at = h->max_end;
  if (h->cut_to < at)
    at = h->cut_to;
  atomic_store_explicit(&h->ttl, h->lease.ttl, memory_order_relaxed);
  atomic_store_explicit(&h->deadline, at, memory_order_release);
}

void dlk_hold_due(struct dlk_hold *h, int64_t at) {
  dlk_timers_batch_put(&h->engine->loop.timers, &h->due, at, false);
}

void dlk_hold_schedule(struct dlk_hold *h) {
  int64_t end = atomic_load(&h->deadline);
  int64_t at = end;
  bool lax = false, claim = h->lease.claim != 0;
  if ((dlk_hold_is_renewed(h) || claim) && !h->renewing && !h->extending &&
      end < h->max_end) {
    int64_t renew_at = dlk_time_add(h->lease.sent, h->lease.ttl / 3);
    if (h->handed && h->granted_at + DLK_HANDED_RENEW < renew_at)
      renew_at = h->granted_at + DLK_HANDED_RENEW;
    if (claim) { /* renewal.c, I4 */
      int64_t left = h->lease.claim - h->granted_at;
      lax = left / 2 >= DLK_HANDED_RENEW + DLK_TIMERS_LAX;
      renew_at = h->granted_at + (lax ? DLK_HANDED_RENEW : left / 4);
    }
    if (renew_at < at)
      at = renew_at;
  }
  dlk_timers_batch_put(&h->engine->loop.timers, &h->due, at, lax);
}

/* A claim only has to be ahead: the store has judged it. So has the horizon: it
 * moves on. */
static bool of_use(struct dlk_hold *h, int64_t now, int64_t least) {
  int64_t given = dlk_lease_deadline(h->lease.sent, h->lease.ttl);
  if (atomic_load(&h->engine->held.horizon) <= now)
    return false;
  return h->lease.claim ? h->lease.claim > now : given - now >= least;
}

/* Most likely a time in milliseconds. */
static void suspect(const struct dlk_hold *h) {
  struct dlk_held *held = &h->engine->held;
  char key[DLK_QUOTED_MAX], text[DLK_QUOTED_MAX + 160];
  if (h->asked.renew || h->lease.ttl <= DAY || held->suspected ||
      h->engine->quiet)
    return;
  held->suspected = true;
  snprintf(text, sizeof text,
           "%s is held for %lld s, more than a day, without renewal; times "
           "are in seconds, not milliseconds",
           dlk_quote(key, h->lease.key, h->lease.key_len),
           (long long)(h->lease.ttl / DLK_SEC));
  dlk_hold_tell(h, "suspicious", text);
}

bool dlk_hold_begin(struct dlk_hold *h, int64_t now, int64_t least) {
  struct dlk_engine *e = h->engine;
  h->max_end = dlk_time_add(now, h->max_hold);
  set_deadline(h);
  if (!of_use(h, now, least))
    return false;
  h->id = atomic_fetch_add(&last_id, 1) + 1;
  dlk_hold_set_want(h, h->lease.want);
  h->granted_at = now;
  atomic_store_explicit(&h->state, DLK_HOLD_HELD, memory_order_release);
  dlk_stats_add(&e->stats.begun);
  dlk_hold_ref(h);
  dlk_list_append(&e->held.list, &h->link);
  dlk_hold_schedule(h);
  suspect(h);
  return true;
}

void dlk_hold_extended(struct dlk_hold *h, int64_t ttl) {
  h->lease.ttl = ttl;
  h->handed = false;
  set_deadline(h);
  dlk_hold_schedule(h);
  suspect(h);
}

/* An EXTEND may be shorter than what is left, and its answer lost: so the
 * shorter time counts now. A renewal must not overtake it. */
void dlk_hold_extending(struct dlk_hold *h, int64_t ttl) {
  int64_t at = dlk_lease_deadline(dlk_clock_now(), ttl);
  h->extending++;
  if (at < h->cut_to)
    h->cut_to = at;
  set_deadline(h);
  dlk_hold_schedule(h);
}

void dlk_hold_extend_over(struct dlk_hold *h, int64_t ttl, bool done) {
  h->extending--;
  if (done && !h->extending)
    h->cut_to = DLK_FOREVER;
  if (done) {
    h->lease.claim = 0;
    dlk_hold_extended(h, ttl);
  } else if ((dlk_hold_is_renewed(h) || h->lease.claim) && !h->extending &&
             !h->renewing) {
    /* A renewal repairs its traces. */
    dlk_hold_due(h, dlk_clock_now());
  }
}

void dlk_hold_tell(const struct dlk_hold *h, const char *kind,
                   const char *text) {
  struct dlk_engine *e = h->engine;
  dlk_events_add(&e->events, kind, h->id, &h->lease, text);
  dlk_wakeup_note(&e->loop.wakeup);
}

static void set_ended(struct dlk_hold *h, enum dlk_hold_state state,
                      const char *why) {
  atomic_store_explicit(&h->ended, why, memory_order_relaxed);
  atomic_store_explicit(&h->state, (int)state, memory_order_release);
}

/* Counted before others can see it. */
static void lose(struct dlk_hold *h, const char *why) {
  char key[DLK_QUOTED_MAX];
  struct dlk_error err;
  dlk_stats_add(&h->engine->stats.lost);
  set_ended(h, DLK_HOLD_LOST, why);
  dlk_error_set(&err, DLK_LOST, "%s is not held any more: %s",
                dlk_quote(key, h->lease.key, h->lease.key_len), why);
  dlk_hold_tell(h, "lost", err.text);
}

void dlk_hold_leave(struct dlk_hold *h, int64_t now, enum dlk_hold_state state,
                    const char *why) {
  struct dlk_engine *e = h->engine;
  DLK_TRACE(now, "engine", "leave", h->lease.key, h->lease.key_len,
            "fence %lld, held for %s ms: %s", (long long)h->lease.fence,
            dlk_trace_ms(now - h->granted_at).text, why);
  dlk_stats_add(&e->stats.ended); /* before it is seen */
  dlk_stats_put(&e->stats.hold, now - h->granted_at);
  /* The event comes before waiters are told. */
  if (state == DLK_HOLD_LOST)
    lose(h, why);
  else
    set_ended(h, state, why);
  dlk_timers_batch_take(&e->loop.timers, &h->due);
  dlk_list_remove(&h->link);
  e->calls->left(h, state);
  dlk_hold_unref(h);
}

void dlk_hold_release_over(struct dlk_hold *h, enum dlk_code code) {
  if (atomic_load(&h->state) != DLK_HOLD_RELEASING)
    return;
  if (code == DLK_LOST)
    lose(h, "it had expired or was broken");
  else
    atomic_store(&h->state, DLK_HOLD_RELEASED);
}

void dlk_hold_give_back(struct dlk_hold *h) {
  struct dlk_engine *e = h->engine;
  dlk_hold_ref(h);
  bool held = dlk_hold_is_held(h);
  bool passed = held && e->calls->pass(h);
  if (held && !passed)
    dlk_hold_leave(h, dlk_clock_now(), DLK_HOLD_RELEASING, "it was released");
  if (!passed && !e->calls->release(h)) {
    dlk_hold_ref(h);
    h->owed = true;
    dlk_hold_due(h, dlk_clock_now() + DLK_SEC);
  }
  dlk_hold_unref(h);
}

bool dlk_hold_check(struct dlk_hold *h, int64_t now) {
  if (!dlk_hold_is_held(h))
    return false;
  if (!atomic_load(&h->expired) && now < end_of(h))
    return true;
  atomic_store(&h->expired, true);
  dlk_hold_ref(h);
  dlk_hold_leave(h, now, DLK_HOLD_LOST, passed_why(h, now));
  dlk_hold_give_back(h);
  dlk_hold_unref(h);
  return false;
}
