/* Renewal: at a third of the ttl, together with all that is due within a tenth
 * of that, until max_hold.
 *
 * I1  A failed renewal is repeated until the deadline.
 * I2  The store's renew never creates a hold: a release, expiry or break wins.
 * I3  During an extension there is none: it would ask for the old ttl.
 * I4  A grant on a claim (a message told of the hand-over) is sure for a short
 *     time. Its renewal comes 50 ms later, so a shorter hold writes nothing,
 *     and is lax (loop/timers.h): for 200 ms more it wakes no thread. Half of
 *     the claim is left then, for another try. A shorter claim is renewed after
 *     a quarter, not laxly.
 * I5  A detach on a claim renews first, since it may keep the end as it is.
 *
 * The price of I4: before the renewal, a process that stands still loses the
 * hold at the claim's end (with Redis, after half a second or more). */
#include "engine/hold/renewal.h"

#define BATCH 256

static struct dlk_hold *of_lease(struct dlk_lease *lease) {
  return (struct dlk_hold *)(void *)lease;
}

static struct dlk_hold *first_due(struct dlk_engine *e, int64_t until) {
  struct dlk_due *due = dlk_timers_batch_first(&e->loop.timers);
  if (!due || due->node.at > until)
    return NULL;
  return DLK_CONTAINER(due, struct dlk_hold, due);
}

/* It waits only for its end. */
static bool only_ends(const struct dlk_hold *h) {
  bool wants = dlk_hold_is_renewed(h) || h->lease.claim;
  return h->owed || !wants || h->renewing || h->extending ||
         atomic_load(&h->deadline) >= h->max_end;
}

static void end_owed(struct dlk_hold *h, bool releases) {
  dlk_timers_batch_take(&h->engine->loop.timers, &h->due);
  h->owed = false;
  if (releases)
    dlk_hold_give_back(h);
  dlk_hold_unref(h);
}

void dlk_holds_forget_owed(struct dlk_engine *e) {
  struct dlk_hold *h;
  while ((h = first_due(e, DLK_FOREVER)) && h->owed)
    end_owed(h, false);
}

static void trace(const struct dlk_hold *h, const char *how) {
  int64_t now = dlk_clock_now();
  dlk_trace_line(now, "engine", "renewal", h->lease.key, h->lease.key_len,
                 "%s, fence %lld, held for %s ms", how,
                 (long long)h->lease.fence,
                 dlk_trace_ms(now - h->granted_at).text);
}

static void begin(struct dlk_hold *h) {
  if (DLK_TRACING)
    trace(h, "asked for");
  h->renewing = true;
  h->engine->loop.work++;
  dlk_hold_ref(h);
  dlk_hold_schedule(h);
}

void dlk_hold_confirm(struct dlk_hold *h) {
  struct dlk_lease *lease = &h->lease;
  struct dlk_engine *e = h->engine;
  begin(h);
  e->type->renew(e->store, &lease, 1);
}

static size_t collect(struct dlk_engine *e, int64_t now,
                      struct dlk_lease **out) {
  size_t n = 0;
  int64_t window = 0;
  struct dlk_hold *h;
  while (n < BATCH && (h = first_due(e, now + window))) {
    if (h->due.node.at > now && only_ends(h))
      break;
    if (h->owed) {
      end_owed(h, true);
    } else if (dlk_hold_check(h, now)) {
      if (only_ends(h)) { /* its deadline has moved */
        dlk_hold_due(h, atomic_load(&h->deadline));
        break;
      }
      if (n == 0)
        window = h->lease.ttl / 30;
      begin(h);
      out[n++] = &h->lease;
    }
  }
  return n;
}

void dlk_holds_run(struct dlk_loop *l, int64_t now) {
  struct dlk_engine *e = DLK_CONTAINER(l, struct dlk_engine, loop);
  struct dlk_lease *batch[BATCH];
  size_t n;
  do {
    n = collect(e, now, batch);
    if (n > 0)
      e->type->renew(e->store, batch, n);
  } while (n == BATCH);
}

/* A renewal's answer is here. Returns false if none was expected. */
static bool answered(struct dlk_hold *h) {
  if (h->renewing) {
    h->renewing = false;
    h->engine->loop.work--;
    return true;
  }
  return false;
}

void dlk_hold_renewed(struct dlk_host *host, struct dlk_lease *lease,
                      int64_t sent) {
  struct dlk_hold *h = of_lease(lease);
  (void)host;
  if (!answered(h))
    return;
  dlk_stats_add(&h->engine->stats.renewed);
  if (DLK_TRACING)
    trace(h, "done");
  if (dlk_hold_check(h, dlk_clock_now())) {
    h->lease.sent = sent;
    h->lease.claim = 0;
    if (!h->extending)
      h->cut_to = DLK_FOREVER;
    dlk_hold_extended(h, h->lease.ttl);
  }
  dlk_hold_unref(h);
}

void dlk_hold_renew_failed(struct dlk_host *host, struct dlk_lease *lease) {
  struct dlk_hold *h = of_lease(lease);
  (void)host;
  if (!answered(h))
    return;
  dlk_stats_add(&h->engine->stats.renew_failed);
  if (DLK_TRACING)
    trace(h, "failed");
  int64_t now = dlk_clock_now();
  if (dlk_hold_check(h, now)) {
    int64_t end = atomic_load(&h->deadline);
    int64_t pause = (end - now) / 8;
    if (pause > DLK_SEC)
      pause = DLK_SEC;
    if (pause < DLK_MS)
      pause = DLK_MS;
    int64_t at = now + pause;
    dlk_hold_due(h, at < end ? at : end);
  }
  dlk_hold_unref(h);
}

void dlk_hold_lost(struct dlk_host *host, struct dlk_lease *lease,
                   const char *why) {
  struct dlk_hold *h = of_lease(lease);
  (void)host;
  bool was_renewing = answered(h);
  if (dlk_hold_is_held(h))
    dlk_hold_leave(h, dlk_clock_now(), DLK_HOLD_LOST, why);
  if (was_renewing)
    dlk_hold_unref(h);
}

void dlk_hold_revoke(struct dlk_host *host, struct dlk_lease *lease) {
  struct dlk_hold *h = of_lease(lease);
  (void)host;
  bool ours = dlk_hold_is_held(h) || /* its release may hear of it */
              atomic_load(&h->state) == DLK_HOLD_RELEASING;
  if (!ours || atomic_exchange(&h->revoked, true))
    return;
  dlk_hold_tell(h, "revoked", "somebody asked for the lock");
}

/* What is under way is answered by the new server. */
void dlk_holds_hurry(struct dlk_host *host) {
  struct dlk_engine *e = (struct dlk_engine *)(void *)host;
  struct dlk_list *held = &e->held.list;
  int64_t now = dlk_clock_now();
  for (struct dlk_list *l = held->next; l != held; l = l->next) {
    struct dlk_hold *h = DLK_CONTAINER(l, struct dlk_hold, link);
    if (!only_ends(h))
      dlk_hold_due(h, now);
  }
}

static void horizon_passed(struct dlk_timer *timer, int64_t now) {
  struct dlk_engine *e =
      DLK_CONTAINER(timer, struct dlk_engine, held.horizon_timer);
  struct dlk_list *held = &e->held.list;
  while (!dlk_list_empty(held) &&
         !dlk_hold_check(DLK_CONTAINER(held->next, struct dlk_hold, link), now))
    continue;
}

void dlk_hold_horizon(struct dlk_host *host, int64_t until) {
  struct dlk_engine *e = (struct dlk_engine *)(void *)host;
  struct dlk_timer *timer = &e->held.horizon_timer;
  atomic_store(&e->held.horizon, until);
  timer->fire = horizon_passed;
  if (until == DLK_FOREVER)
    dlk_timers_clear(&e->loop.timers, timer);
  else
    dlk_timers_set(&e->loop.timers, timer, until);
}
