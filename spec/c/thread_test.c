/* The renewal thread between its look at the loop's owner and its sleep. It
 * looks, plans when to wake, says so, and looks again; whoever leaves the loop
 * in between does not know yet that it sleeps, and leaves it to that second
 * look. Here that moment is made, whatever the machine does: linked with
 * --wrap, the clock that the thread reads behind its first look leaves the loop
 * in the name of its owner, and poll shows for how long the thread then means
 * to sleep. */
#include <poll.h>
#include <unistd.h>

#include "check.h"
#include "engine/close.h"
#include "engine/local_queue.h"
#include "engine/renewal.h"
#include "engine/request.h"
#include "loop/owner.h"
#include "loop/thread.h"

int64_t __real_dlk_clock_now(void);
int64_t __wrap_dlk_clock_now(void);
int __real_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);

static struct dlk_engine *engine;
static _Thread_local bool is_renewal;
static _Thread_local int reads; /* of the clock, since it last woke */
static int64_t leave_with;      /* what is due then: ns from now */
static atomic_bool armed, left;
static atomic_int slept = -2, watched; /* what poll got after that */

static void fire(struct dlk_timer *timer, int64_t now) {
  (void)timer;
  (void)now;
}

static struct dlk_timer timer = {.fire = fire};

int64_t __wrap_dlk_clock_now(void) {
  /* The first time it asks whether anything is due, then it has found the loop
   * owned and plans. */
  if (is_renewal && atomic_load(&armed) && ++reads == 2) {
    atomic_store(&armed, false);
    engine->host.timer_set(&engine->host, &timer,
                           __real_dlk_clock_now() + leave_with);
    dlk_owner_leave(&engine->loop);
    atomic_store(&left, true);
  }
  return __real_dlk_clock_now();
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int ms) {
  if (atomic_exchange(&left, false)) {
    atomic_store(&watched, fds[1].fd);
    atomic_store(&slept, ms);
  }
  int rc = __real_poll(fds, n, ms);
  is_renewal = true; /* nobody else of ours polls */
  reads = 0;
  return rc;
}

/* ---- a store that says yes ---- */

static struct dlk_host *host;

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
                                           .name = "yes",
                                           .create = create,
                                           .submit = submit,
                                           .stop = stop,
                                           .destroy = destroy};

static void ask(const struct dlk_request *r) {
  struct dlk_error err;
  struct dlk_ticket *t = dlk_engine_submit(engine, r, false, &err);
  CHECK(t);
  while (!dlk_engine_drive(t, DLK_SEC))
    continue;
  dlk_ticket_unref(t);
}

static void begin(void) {
  const struct dlk_request ping = {.kind = DLK_OP_PING, .timeout = -1};
  const struct dlk_conf conf = {
      .shown = "yes:", .scheme = "", .path = "", .io_timeout = DLK_SEC};
  struct dlk_error err;
  engine = dlk_engine_new(&type, &conf, "me", &err);
  CHECK(engine);
  ask(&ping);
}

static void end(void) {
  const struct dlk_request close = {.task = DLK_TASK_CLOSE, .timeout = DLK_SEC};
  ask(&close);
  dlk_engine_join(engine);
  dlk_engine_unref(engine);
}

/* For how many ms it means to sleep when the loop is left at that moment. */
static int sleep_after(int64_t due) {
  leave_with = due;
  while (!dlk_owner_take(&engine->loop, DLK_OWNER_CALLER))
    usleep(1000);
  atomic_store(&slept, -2);
  atomic_store(&armed, true);
  while (atomic_load(&slept) == -2) {
    dlk_sleeper_signal(&engine->loop.sleeper);
    usleep(1000);
  }
  return atomic_load(&slept);
}

static void wakes_for_what_is_due(void) {
  begin();
  for (int i = 0; i < 20; i++) {
    int ms = sleep_after(30 * DLK_MS);
    CHECK(ms >= 0 && ms <= 30);
  }
  end();
}

int main(void) {
  static const struct check tests[] = {
      {"the renewal thread wakes for what became due while it looked",
       wakes_for_what_is_due},
  };
  return check_all(tests, sizeof tests / sizeof *tests);
}
