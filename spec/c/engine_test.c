/* Tickets that cross their own end: what nobody wants any more gets done before
 * the post that says so is run. The test owns the loop meanwhile, so that the
 * order is always this one. */
#include <unistd.h>

#include <string.h>

#include "check.h"
#include "engine/close.h"
#include "engine/stats.h"
#include "loop/owner.h"

int64_t __real_dlk_clock_now(void);
int64_t __wrap_dlk_clock_now(void);

static _Thread_local int64_t later; /* for this thread only */

int64_t __wrap_dlk_clock_now(void) {
  return __real_dlk_clock_now() + later;
}

/* ---- a store that answers a change when it is told to ---- */

static struct dlk_host *host;
static struct dlk_op *waiting;

static enum dlk_code create(struct dlk_host *h, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  (void)conf;
  (void)err;
  host = h;
  *out = &host;
  return DLK_OK;
}

static void submit(void *store, struct dlk_op *op) {
  (void)store;
  if (op->kind == DLK_OP_CHANGE) {
    waiting = op;
    return;
  }
  if (op->kind == DLK_OP_ACQUIRE)
    op->lease->sent = host->now(host);
  host->done(host, op, NULL);
}

static void stop(void *store) {
  (void)store;
  host->stopped(host);
}

static void destroy(void *store) {
  (void)store;
}

static const struct dlk_store_type type = {.abi = DLK_STORE_ABI,
                                           .name = "slow",
                                           .create = create,
                                           .submit = submit,
                                           .stop = stop,
                                           .destroy = destroy};

/* ---- an engine whose loop is ours ---- */

static struct dlk_engine *engine;

static struct dlk_ticket *ask(const struct dlk_request *r, bool wake) {
  struct dlk_error err;
  struct dlk_ticket *t = dlk_engine_submit(engine, r, wake, &err);
  CHECK(t);
  return t;
}

static void ask_and_wait(const struct dlk_request *r) {
  struct dlk_ticket *t = ask(r, false);
  while (!dlk_engine_drive(t, DLK_SEC))
    continue;
  dlk_ticket_unref(t);
}

static void take(void) {
  while (!dlk_owner_take(&engine->loop, DLK_OWNER_CALLER))
    usleep(1000);
}

static void begin(void) {
  const struct dlk_request ping = {.kind = DLK_OP_PING, .timeout = -1};
  const struct dlk_conf conf = {
      .shown = "slow:", .scheme = "", .path = "", .io_timeout = DLK_SEC};
  struct dlk_error err;
  engine = dlk_engine_new(&type, &conf, "me", &err);
  CHECK(engine);
  ask_and_wait(&ping);
  take();
}

static void end(void) {
  const struct dlk_request close = {.task = DLK_TASK_CLOSE, .timeout = DLK_SEC};
  dlk_owner_leave(&engine->loop);
  ask_and_wait(&close);
  dlk_engine_join(engine);
  dlk_engine_unref(engine);
}

/* ---- the tests ---- */

static void change_is_done_when_abandoned(void) {
  const struct dlk_request change = {
      .kind = DLK_OP_CHANGE, .key = "k", .key_len = 1, .timeout = DLK_FOREVER};
  begin();
  struct dlk_ticket *t = ask(&change, true);
  dlk_inbox_run(&engine->loop.inbox);
  CHECK(waiting);
  dlk_ticket_unref(t);
  host->done(host, waiting, NULL);
  dlk_inbox_run(&engine->loop.inbox);
  CHECK(dlk_list_empty(&engine->work.ops));
  end();
}

static void close_is_over_when_abandoned(void) {
  const struct dlk_request close = {.task = DLK_TASK_CLOSE, .timeout = DLK_SEC};
  begin();
  struct dlk_ticket *t = ask(&close, true);
  dlk_inbox_run(&engine->loop.inbox); /* the store is to be stopped */
  dlk_ticket_unref(t);
  dlk_inbox_run(&engine->loop.inbox);
  CHECK(atomic_load(&engine->close->stopped));
  end();
}

/* A thread that renews reads the clock, and is preempted; another one sees that
 * the time has passed; then the first goes on with what it read. */
static void what_was_seen_to_end_is_over(void) {
  const struct dlk_request acquire = {.kind = DLK_OP_ACQUIRE,
                                      .key = "k",
                                      .key_len = 1,
                                      .ttl = 10 * DLK_SEC,
                                      .max_hold = DLK_FOREVER,
                                      .timeout = DLK_SEC};
  begin();
  struct dlk_ticket *t = ask(&acquire, true);
  dlk_inbox_run(&engine->loop.inbox);
  struct dlk_hold *h = dlk_ticket_take(t);
  CHECK(h && dlk_hold_remaining(h) > 0);
  later = 11 * DLK_SEC;
  CHECK(dlk_hold_remaining(h) == 0);
  later = 0;
  CHECK(dlk_hold_remaining(h) == 0);
  dlk_hold_unref(h);
  dlk_ticket_unref(t);
  end();
}

/* As Prometheus has it: a bucket's bound is in the bucket. */
static void bounds_are_in_their_buckets(void) {
  for (int i = 0; dlk_stats_bound(i) > 0; i++) {
    static struct dlk_stats s;
    memset(&s, 0, sizeof s);
    int64_t ns = (int64_t)(dlk_stats_bound(i) * 1e6 + 0.5) * 1000;
    dlk_stats_waited(&s, ns);
    CHECK(s.wait.buckets[i] == 1);
    dlk_stats_waited(&s, ns + 1000);
    CHECK(s.wait.buckets[i + 1] == 1);
  }
}

int main(void) {
  static const struct check tests[] = {
      {"a lease that was seen to have ended is over",
       what_was_seen_to_end_is_over},
      {"the bound of a bucket is in it", bounds_are_in_their_buckets},
      {"a change that comes when nobody waits any more",
       change_is_done_when_abandoned},
      {"a close that is over when nobody waits any more",
       close_is_over_when_abandoned},
  };
  return check_all(tests, sizeof tests / sizeof *tests);
}
