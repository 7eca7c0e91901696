/* The end of a store, and of what nobody waits for: what it costs, what it
 * leaves in memory, and who sees to it. */
#include <malloc.h>
#include <string.h>
#include <unistd.h>

#include "engine/ticket/close.h"
#include "engine/ticket/ticket.h"
#include "engine_store.h"
#include "loop/owner.h"

void __real_free(void *p);
void __wrap_free(void *p);
void __real_dlk_ticket_ref(struct dlk_ticket *t);
void __wrap_dlk_ticket_ref(struct dlk_ticket *t);

static int secrets_freed, references, cancels;

/* Whether it is freed with a secret in it. */
void __wrap_free(void *p) {
  if (p && memmem(p, malloc_usable_size(p), "hush", 4))
    secrets_freed++;
  __real_free(p);
}

void __wrap_dlk_ticket_ref(struct dlk_ticket *t) {
  references++;
  __real_dlk_ticket_ref(t);
}

/* ---- a store that answers some requests late, or never ---- */

#define LATE (20 * DLK_MS)

static struct dlk_op *releasing;
static enum dlk_code created;
static bool silent; /* an acquire is not answered, nor is its cancel */
static atomic_int released;
static atomic_bool answers = true; /* a release, when its time has come */

static enum dlk_code create(struct dlk_host *h, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  store_create(h, conf, out, err);
  return created == DLK_OK ? DLK_OK : dlk_error_set(err, created, "no");
}

static void answer_late(struct dlk_timer *timer, int64_t now) {
  if (!atomic_load(&answers)) {
    host->timer_set(host, timer, now + DLK_MS);
    return;
  }
  host->done(host, releasing, NULL);
  atomic_fetch_add(&released, 1);
}

static struct dlk_timer late = {.fire = answer_late};

static void submit(void *store, struct dlk_op *op) {
  (void)store;
  if (op->kind == DLK_OP_ACQUIRE)
    op->lease->sent = host->now(host);
  if (op->kind == DLK_OP_RELEASE) {
    releasing = op;
    host->timer_set(host, &late, host->now(host) + LATE);
  } else if (op->kind != DLK_OP_ACQUIRE || !silent) {
    host->done(host, op, NULL);
  }
}

/* Of a close that begins: when three quarters of its time are over. */
#define CLOSE_TIME (2 * DLK_SEC)
#define MOST_OF_IT (CLOSE_TIME / 4 * 3)

static bool mostly_over, stopped_before;

static void note_time(struct dlk_timer *timer, int64_t now) {
  (void)timer;
  (void)now;
  mostly_over = true;
}

static struct dlk_timer clock_of_close = {.fire = note_time};

static void cancel(void *store, struct dlk_op *op) {
  (void)store;
  (void)op;
  if (cancels++ == 0)
    host->timer_set(host, &clock_of_close, host->now(host) + MOST_OF_IT);
}

static void stop(void *store) {
  host->timer_clear(host, &clock_of_close);
  stopped_before = !mostly_over;
  store_stop(store);
}

static struct dlk_store_type type = {.abi = DLK_STORE_ABI,
                                     .name = "late",
                                     .portable = true,
                                     .prefix = store_prefix,
                                     .create = create,
                                     .submit = submit,
                                     .cancel = cancel,
                                     .stop = stop,
                                     .destroy = store_destroy};

/* ---- an engine ---- */

static struct dlk_engine *engine;

static struct dlk_engine *open_one(void) {
  static const struct dlk_option key = {.name = "key", .text = "hush, a key"};
  const struct dlk_conf conf = {.shown = "late:",
                                .scheme = "",
                                .path = "",
                                .username = "me",
                                .password = "hush",
                                .options = {&key, 1},
                                .io_timeout = 600 * DLK_SEC};
  struct dlk_error err;
  return dlk_engine_new(&type, &conf, "me", &err);
}

static void begin(void) {
  created = DLK_OK;
  silent = false;
  atomic_store(&released, 0);
  engine = open_one();
  CHECK(engine);
  ping(engine);
}

static void end(void) {
  close_and_join(engine, DLK_SEC);
  dlk_engine_unref(engine);
}

static const struct dlk_request acquire = {.kind = DLK_OP_ACQUIRE,
                                           .key = "k",
                                           .key_len = 1,
                                           .wait = true,
                                           .renew = true,
                                           .ttl = 600 * DLK_SEC,
                                           .max_hold = DLK_FOREVER,
                                           .timeout = DLK_FOREVER};

/* ---- the tests ---- */

TEST(no_secret_is_freed) {
  secrets_freed = 0;
  begin();
  end();
  CHECK(secrets_freed == 0);
  created = DLK_INVALID;
  CHECK(!open_one());
  CHECK(secrets_freed == 0);
}

/* It is asked for while its caller makes ready to wait, and he never does. */
TEST(release_goes_on_without_its_caller) {
  begin();
  struct dlk_ticket *t = ask_of(engine, &acquire, false);
  struct dlk_hold *h = dlk_ticket_take(t);
  CHECK(h);
  dlk_ticket_unref(t);
  const struct dlk_request release = {
      .kind = DLK_OP_RELEASE, .hold = h, .timeout = DLK_FOREVER};
  atomic_store(&answers, false);
  t = ask_of(engine, &release, false);
  bool done = dlk_ticket_done(t);
  dlk_ticket_unref(t);
  atomic_store(&answers, true);
  CHECK(!done);
  int64_t until = dlk_clock_now() + 10 * DLK_SEC;
  while (atomic_load(&released) == 0 && dlk_clock_now() < until)
    usleep(1000);
  CHECK(atomic_load(&released) == 1);
  dlk_hold_unref(h);
  end();
}

#define WAITS 300

/* None of them is answered, so the store has all of them meanwhile. */
TEST(close_looks_at_each_wait_once) {
  static struct dlk_ticket *waits[WAITS];
  begin();
  silent = true;
  for (int i = 0; i < WAITS; i++)
    waits[i] = ask_of(engine, &acquire, false);
  references = cancels = 0;
  close_and_join(engine, 50 * DLK_MS);
  CHECK(cancels == WAITS && references < 10 * WAITS);
  for (int i = 0; i < WAITS; i++) {
    CHECK(dlk_ticket_done(waits[i]) && dlk_ticket_error(waits[i]));
    dlk_ticket_unref(waits[i]);
  }
  dlk_engine_unref(engine);
}

/* With one that stops at once all of the time is for what is under way. */
TEST(close_keeps_the_time_that_a_stop_takes) {
  for (int slow = 0; slow < 2; slow++) {
    type.stop_wait = slow ? CLOSE_TIME : 0;
    begin();
    silent = true;
    cancels = 0;
    mostly_over = false;
    struct dlk_ticket *t = ask_of(engine, &acquire, false);
    close_and_join(engine, CLOSE_TIME);
    CHECK(cancels == 1 && stopped_before == slow);
    dlk_ticket_unref(t);
    dlk_engine_unref(engine);
  }
  type.stop_wait = 0;
}

/* And with two of them the time of the one that may wait for longer. */
TEST(two_closes_keep_the_time_that_a_stop_takes) {
  const struct dlk_request first = {.task = DLK_TASK_CLOSE,
                                    .timeout = CLOSE_TIME};
  type.stop_wait = CLOSE_TIME;
  begin();
  silent = true;
  cancels = 0;
  mostly_over = false;
  struct dlk_ticket *wait = ask_of(engine, &acquire, false);
  struct dlk_ticket *t = ask_of(engine, &first, false);
  close_and_join(engine, CLOSE_TIME + LATE);
  CHECK(cancels == 1 && stopped_before && dlk_ticket_done(t));
  dlk_ticket_unref(t);
  dlk_ticket_unref(wait);
  dlk_engine_unref(engine);
  type.stop_wait = 0;
}

/* As the owner: the store stops while a caller runs the loop. */
TEST(end_is_seen_whoever_stops_the_store) {
  begin();
  while (!dlk_owner_take(&engine->loop, DLK_OWNER_CALLER))
    usleep(1000);
  dlk_engine_join(engine);
  CHECK(!atomic_load(&engine->close->stopped));
  dlk_inbox_run(&engine->loop.inbox); /* it is to be stopped */
  dlk_inbox_run(&engine->loop.inbox); /* and is */
  CHECK(atomic_load(&engine->close->stopped));
  dlk_owner_leave(&engine->loop);
  int64_t until = dlk_clock_now() + 10 * DLK_SEC;
  while (atomic_load(&engine->refs) > 1 && dlk_clock_now() < until)
    usleep(1000);
  CHECK(atomic_load(&engine->refs) == 1); /* the renewal thread has gone */
  dlk_engine_unref(engine);
}

int main(void) {
  return check_all();
}
