/* Requests and leases whose answers come at a bad moment: when nobody wants
 * them any more, behind a deadline, across one another. The store answers when
 * the test says so, the clock is the test's, and the test owns the loop
 * meanwhile, so the order of events is always the same. */
#include <unistd.h>

#include <string.h>

#include "engine/random.h"
#include "engine/stats.h"
#include "engine/ticket/close.h"
#include "engine_store.h"
#include "loop/owner.h"

int64_t __real_dlk_clock_now(void);
int64_t __wrap_dlk_clock_now(void);

/* For this thread only: while it owns the loop its clock stands still but for
 * what the test lets pass, however slow the machine is. */
static _Thread_local int64_t stands_at, later;

int64_t __wrap_dlk_clock_now(void) {
  return (stands_at ? stands_at : __real_dlk_clock_now()) + later;
}

/* ---- a store that answers some requests only when it is told to ---- */

static unsigned unanswered; /* bits of kinds */
static struct dlk_op *waiting, *cancelled;
static struct dlk_lease *renewing;
static int releases, renewals, renewals_before_detach;
static int64_t claim; /* so long a grant is sure; 0: as long as its ttl */

static void submit(void *store, struct dlk_op *op) {
  (void)store;
  if (op->kind == DLK_OP_RELEASE)
    releases++;
  if (op->kind == DLK_OP_ACQUIRE || op->kind == DLK_OP_EXTEND)
    op->lease->sent = host->now(host);
  if (op->kind == DLK_OP_ACQUIRE && claim > 0)
    op->lease->claim = host->now(host) + claim;
  if (op->kind == DLK_OP_DETACH)
    renewals_before_detach = renewals;
  if (unanswered & 1u << op->kind)
    waiting = op;
  else
    host->done(host, op, NULL);
}

static void cancel(void *store, struct dlk_op *op) {
  (void)store;
  cancelled = op;
}

static void renew(void *store, struct dlk_lease *const *leases, size_t n) {
  (void)store;
  renewing = leases[n - 1];
  renewals++;
}

/* What waits ends so. */
static void answer(enum dlk_code code) {
  const struct dlk_error err = {.code = code, .text = ""};
  unanswered = 0;
  host->done(host, waiting, code == DLK_OK ? NULL : &err);
}

static const struct dlk_store_type type = {.abi = DLK_STORE_ABI,
                                           .name = "slow",
                                           .portable = true,
                                           .prefix = store_prefix,
                                           .create = store_create,
                                           .submit = submit,
                                           .cancel = cancel,
                                           .renew = renew,
                                           .stop = store_stop,
                                           .destroy = store_destroy};

/* ---- an engine whose loop is ours ---- */

static struct dlk_engine *engine;

static void take(void) {
  while (!dlk_owner_take(&engine->loop, DLK_OWNER_CALLER))
    usleep(1000);
}

static void begin(void) {
  const struct dlk_conf conf = {
      .shown = "slow:", .scheme = "", .path = "", .io_timeout = DLK_SEC};
  struct dlk_error err;
  stands_at = later = claim = 0;
  unanswered = 0;
  waiting = cancelled = NULL;
  renewing = NULL;
  releases = renewals = 0;
  engine = dlk_engine_new(&type, &conf, "me", &err);
  CHECK(engine);
  ping(engine);
  take();
  stands_at = dlk_clock_now();
}

static void end(void) {
  stands_at = later = 0;
  dlk_owner_leave(&engine->loop);
  close_and_join(engine, DLK_SEC);
  dlk_engine_unref(engine);
}

/* The clock goes on, and what is due is done. */
static void pass(int64_t ns) {
  later += ns;
  dlk_owner_run_due(&engine->loop, dlk_clock_now());
}

/* ---- what is asked for ---- */

static struct dlk_ticket *start(const struct dlk_request *r) {
  struct dlk_ticket *t = ask_of(engine, r, true);
  dlk_inbox_run(&engine->loop.inbox);
  return t;
}

/* The store does not answer it yet. */
static struct dlk_ticket *start_unanswered(const struct dlk_request *r) {
  unanswered = 1u << r->kind;
  struct dlk_ticket *t = start(r);
  CHECK(waiting && !dlk_ticket_done(t));
  return t;
}

static bool ended_with(const struct dlk_ticket *t, enum dlk_code code) {
  const struct dlk_error *err = dlk_ticket_error(t);
  return dlk_ticket_done(t) && (err ? err->code : DLK_OK) == code;
}

#define TTL (10 * DLK_SEC)

static const struct dlk_request acquire = {.kind = DLK_OP_ACQUIRE,
                                           .key = "k",
                                           .key_len = 1,
                                           .wait = true,
                                           .renew = true,
                                           .ttl = TTL,
                                           .max_hold = DLK_FOREVER,
                                           .timeout = DLK_SEC};

static struct dlk_hold *hold(void) {
  struct dlk_ticket *t = start(&acquire);
  struct dlk_hold *h = dlk_ticket_take(t);
  CHECK(h && dlk_hold_remaining(h) > 0);
  dlk_ticket_unref(t);
  return h;
}

/* A renewal of it is under way. */
static void start_renewal(struct dlk_hold *h) {
  pass(TTL / 3);
  CHECK(renewals == 1 && renewing == dlk_hold_lease(h));
}

static struct dlk_request extend(struct dlk_hold *h, int64_t ttl) {
  return (struct dlk_request){
      .kind = DLK_OP_EXTEND, .hold = h, .ttl = ttl, .timeout = DLK_SEC};
}

/* ---- the tests ---- */

TEST(change_is_done_when_abandoned) {
  const struct dlk_request change = {
      .kind = DLK_OP_CHANGE, .key = "k", .key_len = 1, .timeout = DLK_FOREVER};
  begin();
  struct dlk_ticket *t = start_unanswered(&change);
  dlk_ticket_unref(t);
  answer(DLK_OK);
  dlk_inbox_run(&engine->loop.inbox);
  CHECK(dlk_list_empty(&engine->work.ops));
  end();
}

TEST(close_is_over_when_abandoned) {
  const struct dlk_request close = {.task = DLK_TASK_CLOSE, .timeout = DLK_SEC};
  begin();
  struct dlk_ticket *t = start(&close); /* the store is to be stopped */
  dlk_ticket_unref(t);
  dlk_inbox_run(&engine->loop.inbox);
  CHECK(atomic_load(&engine->close->stopped));
  end();
}

/* A thread that renews reads the clock, and is preempted; another one sees that
 * the time has passed; then the first goes on with what it read. */
TEST(what_was_seen_to_end_is_over) {
  begin();
  struct dlk_hold *h = hold();
  later = 11 * DLK_SEC;
  CHECK(dlk_hold_remaining(h) == 0);
  later = 0;
  CHECK(dlk_hold_remaining(h) == 0);
  dlk_hold_unref(h);
  end();
}

TEST(grant_crosses_a_cancel) {
  begin();
  struct dlk_ticket *t = start_unanswered(&acquire);
  dlk_ticket_cancel(t, DLK_CANCELLED);
  dlk_inbox_run(&engine->loop.inbox);
  CHECK(cancelled == waiting);
  answer(DLK_OK);
  CHECK(ended_with(t, DLK_CANCELLED) && !dlk_ticket_take(t));
  CHECK(releases == 1);
  dlk_ticket_unref(t);
  end();
}

TEST(grant_crosses_a_timeout) {
  begin();
  struct dlk_ticket *t = start_unanswered(&acquire);
  pass(acquire.timeout);
  CHECK(cancelled == waiting);
  answer(DLK_OK);
  struct dlk_hold *h = dlk_ticket_take(t);
  CHECK(ended_with(t, DLK_OK) && h && dlk_hold_remaining(h) > 0);
  dlk_hold_unref(h);
  dlk_ticket_unref(t);
  end();
}

TEST(release_finds_a_loss) {
  begin();
  struct dlk_hold *h = hold();
  const struct dlk_request release = {
      .kind = DLK_OP_RELEASE, .hold = h, .timeout = DLK_SEC};
  struct dlk_ticket *t = start_unanswered(&release);
  CHECK(!dlk_hold_is_lost(h));
  answer(DLK_LOST);
  CHECK(ended_with(t, DLK_LOST) && dlk_hold_is_lost(h));
  CHECK(strcmp(h->ended, "it had expired or was broken") == 0);
  dlk_ticket_unref(t);
  dlk_hold_unref(h);
  end();
}

/* The server may have begun its ttl as soon as it was sent. */
TEST(renewal_counts_from_its_sending) {
  begin();
  struct dlk_hold *h = hold();
  start_renewal(h);
  int64_t sent = dlk_clock_now();
  later += TTL / 3;
  host->renewed(host, renewing, sent);
  CHECK(dlk_hold_remaining(h) > 0);
  later = sent + TTL - stands_at;
  CHECK(dlk_hold_remaining(h) == 0);
  dlk_hold_unref(h);
  end();
}

/* Nobody has looked at the lease since its deadline. */
TEST(renewal_comes_after_the_deadline) {
  begin();
  struct dlk_hold *h = hold();
  start_renewal(h);
  int64_t sent = dlk_clock_now();
  later += TTL - TTL / 3;
  host->renewed(host, renewing, sent);
  CHECK(dlk_hold_is_lost(h) && dlk_hold_remaining(h) == 0);
  CHECK(releases == 1);
  dlk_hold_unref(h);
  end();
}

/* Until its answer nobody knows whether it took effect. */
TEST(extension_cuts_the_deadline) {
  begin();
  struct dlk_hold *h = hold();
  const struct dlk_request shorter = extend(h, DLK_SEC);
  struct dlk_ticket *t = start_unanswered(&shorter);
  later += DLK_SEC;
  CHECK(dlk_hold_remaining(h) == 0);
  answer(DLK_OK);
  CHECK(ended_with(t, DLK_LOST) && dlk_hold_is_lost(h) && releases == 1);
  dlk_ticket_unref(t);
  dlk_hold_unref(h);
  end();
}

/* Nobody has looked at the lease since its deadline. */
TEST(change_comes_after_the_deadline) {
  static const enum dlk_op_kind changes[] = {DLK_OP_EXTEND, DLK_OP_DOWNGRADE,
                                             DLK_OP_DETACH, DLK_OP_PUBLISH};
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    begin();
    struct dlk_hold *h = hold();
    const struct dlk_request change = {
        .kind = changes[i], .hold = h, .ttl = 2 * TTL, .timeout = DLK_SEC};
    struct dlk_ticket *t = start_unanswered(&change);
    later += TTL;
    answer(DLK_OK);
    CHECK(ended_with(t, DLK_LOST) && dlk_hold_is_lost(h) && releases == 1);
    dlk_ticket_unref(t);
    dlk_hold_unref(h);
    end();
  }
}

/* One that failed is tried again soon, but not across an extension: it could
 * undo that at the store. */
TEST(renewal_waits_for_an_extension) {
  begin();
  struct dlk_hold *h = hold();
  start_renewal(h);
  struct dlk_request longer = extend(h, 2 * TTL);
  longer.timeout = DLK_FOREVER;
  struct dlk_ticket *t = start_unanswered(&longer);
  host->renew_failed(host, renewing);
  pass(2 * DLK_SEC);
  CHECK(renewals == 1 && dlk_hold_remaining(h) > 0);
  answer(DLK_UNAVAILABLE);
  pass(0);
  CHECK(renewals == 2);
  host->renewed(host, renewing, dlk_clock_now());
  CHECK(ended_with(t, DLK_UNAVAILABLE) && dlk_hold_remaining(h) > 0);
  dlk_ticket_unref(t);
  dlk_hold_unref(h);
  end();
}

/* Nobody is to be woken before the end of that time. */
static void renewed_after(int64_t ns, int64_t lax) {
  begin();
  claim = ns;
  struct dlk_hold *h = hold();
  int64_t due = dlk_timers_next(&engine->loop.timers);
  CHECK(dlk_timers_latest(&engine->loop.timers) == due + lax);
  CHECK(due > h->granted_at && due - h->granted_at < ns / 2);
  pass((due - h->granted_at) / 2);
  CHECK(renewals == 0);
  pass(due - dlk_clock_now());
  CHECK(renewals == 1 && dlk_hold_remaining(h) < ns);
  host->renewed(host, renewing, dlk_clock_now());
  CHECK(dlk_hold_remaining(h) > TTL / 2);
  dlk_hold_unref(h);
  end();
}

TEST(claim_is_renewed_in_time) {
  renewed_after(DLK_SEC, DLK_TIMERS_LAX);
  renewed_after(600 * DLK_MS, DLK_TIMERS_LAX);
  renewed_after(400 * DLK_MS, 0);
  renewed_after(100 * DLK_MS, 0);
}

TEST(short_hold_on_a_claim_asks_nothing) {
  begin();
  claim = 600 * DLK_MS;
  struct dlk_hold *h = hold();
  const struct dlk_request release = {
      .kind = DLK_OP_RELEASE, .hold = h, .timeout = DLK_SEC};
  pass(40 * DLK_MS);
  CHECK(dlk_hold_remaining(h) > 0);
  dlk_ticket_unref(start(&release));
  pass(TTL);
  CHECK(renewals == 0 && releases == 1);
  dlk_hold_unref(h);
  end();
}

/* It might leave the end where it is. */
TEST(claim_is_renewed_before_a_detach) {
  begin();
  claim = 600 * DLK_MS;
  struct dlk_hold *h = hold();
  const struct dlk_request detach = {
      .kind = DLK_OP_DETACH, .hold = h, .timeout = DLK_SEC};
  dlk_ticket_unref(start_unanswered(&detach));
  CHECK(renewals == 1 && renewals_before_detach == 1);
  host->renewed(host, renewing, dlk_clock_now());
  answer(DLK_OK);
  dlk_hold_unref(h);
  end();
}

/* Eight of all these are the same once in a million million runs. */
TEST(random_bytes_are_given_out_once) {
  static struct dlk_random r;
  static unsigned char one[8], seen[1000][sizeof one];
  for (int i = 0; i < 1000; i++) {
    size_t skip = (size_t)i % sizeof one;
    dlk_random_take(&r, one, skip); /* across the ends of blocks */
    dlk_random_take(&r, one, sizeof one);
    for (int k = 0; k < i; k++)
      CHECK(memcmp(seen[k], one, sizeof one) != 0);
    memcpy(seen[i], one, sizeof one);
  }
}

/* As Prometheus has it: a bucket's bound is in the bucket. */
TEST(bounds_are_in_their_buckets) {
  for (int i = 0; dlk_stats_bound(i) > 0; i++) {
    static struct dlk_stats s;
    memset(&s, 0, sizeof s);
    int64_t ns = (int64_t)(dlk_stats_bound(i) * 1e6 + 0.5) * 1000;
    dlk_stats_put(&s.wait, ns);
    CHECK(s.wait.buckets[i] == 1);
    dlk_stats_put(&s.wait, ns + 1000);
    CHECK(s.wait.buckets[i + 1] == 1);
  }
}

/* There may have been no memory for it, or too many others came after it. */
TEST(password_is_asked_for_without_an_event) {
  struct dlk_secret *secret = dlk_secret_new("a", NULL, true);
  const struct dlk_conf conf = {
      .shown = "slow:", .scheme = "", .path = "", .secret = secret};
  struct dlk_error err;
  struct dlk_engine *e = dlk_engine_new(&type, &conf, "me", &err);
  CHECK(e && !dlk_engine_has_events(e) && !dlk_engine_asks(e));
  CHECK(dlk_secret_refused(secret, 0));
  CHECK(dlk_engine_has_events(e) && dlk_engine_asks(e));
  CHECK(!dlk_engine_has_events(e) && !dlk_engine_asks(e));
  CHECK(dlk_engine_password(e, "b"));
  dlk_engine_unref(e);
}

int main(void) {
  return check_all();
}
