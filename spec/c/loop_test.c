/* The loop without an engine: whatever it is part of, it runs what is posted
 * and due, and sleeps for no longer than it may.
 *
 * The renewal thread has a moment between its look at the loop's owner and its
 * sleep. It looks, plans when to wake, says so, and looks again; whoever leaves
 * the loop in between does not know yet that it sleeps, and leaves it to that
 * second look. Here that moment is made, whatever the machine does: linked with
 * --wrap, the clock that the thread reads behind its first look leaves the loop
 * in the name of its owner, and poll shows for how long the thread then means
 * to sleep. */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "loop/life.h"
#include "loop/owner.h"

int64_t __real_dlk_clock_now(void);
int64_t __wrap_dlk_clock_now(void);
int __real_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);

static struct dlk_loop loop;
static _Thread_local bool is_awake; /* the renewal thread, woken when armed */
static _Thread_local int reads;     /* of the clock, since then */
static int64_t leave_with;          /* what is due then: ns from now */
static atomic_bool armed, left;
static atomic_int slept = -2; /* what poll got after that */

static void fire(struct dlk_timer *timer, int64_t now) {
  (void)timer;
  (void)now;
}

static struct dlk_timer timer = {.fire = fire};

int64_t __wrap_dlk_clock_now(void) {
  /* The first time it asks whether anything is due, then it has found the loop
   * owned and plans. */
  if (is_awake && ++reads == 2) {
    is_awake = false;
    atomic_store(&armed, false);
    dlk_timers_set(&loop.timers, &timer, __real_dlk_clock_now() + leave_with);
    dlk_owner_leave(&loop);
    atomic_store(&left, true);
  }
  return __real_dlk_clock_now();
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int ms) {
  if (atomic_exchange(&left, false))
    atomic_store(&slept, ms);
  int rc = __real_poll(fds, n, ms);
  is_awake = atomic_load(&armed); /* nobody else of ours polls */
  reads = 0;
  return rc;
}

/* ---- what the loop asks of us ---- */

static atomic_int batches;

static void run_batch(struct dlk_loop *l, int64_t now) {
  while (dlk_timers_batch_next(&l->timers) <= now)
    dlk_timers_batch_take(&l->timers, dlk_timers_batch_first(&l->timers));
  atomic_fetch_add(&batches, 1);
}

static bool over(struct dlk_loop *l) {
  (void)l;
  return false;
}

static const struct dlk_loop_calls calls = {.run_batch = run_batch,
                                            .over = over};

static void begin(void) {
  struct dlk_error err;
  memset(&loop, 0, sizeof loop);
  memset(&timer.node, 0, sizeof timer.node);
  CHECK(dlk_loop_init(&loop, &calls));
  CHECK(dlk_loop_open(&loop, "a test", &err));
}

static void end(void) {
  dlk_loop_end(&loop);
  dlk_loop_destroy(&loop);
}

static void take(void) {
  while (!dlk_owner_take(&loop, DLK_OWNER_CALLER))
    usleep(1000);
}

/* ---- the tests ---- */

/* For how many ms it means to sleep when the loop is left at that moment. */
static int sleep_after(int64_t due) {
  leave_with = due;
  take();
  atomic_store(&slept, -2);
  atomic_store(&armed, true);
  while (atomic_load(&slept) == -2) {
    dlk_sleeper_signal(&loop.sleeper);
    usleep(1000);
  }
  return atomic_load(&slept);
}

TEST(wakes_for_what_is_due) {
  begin();
  for (int i = 0; i < 20; i++) {
    int ms = sleep_after(30 * DLK_MS);
    CHECK(ms >= 0 && ms <= 30);
  }
  end();
}

#define POSTS 100

static struct dlk_post posts[POSTS];
static int order[POSTS];
static atomic_int ran;

static void note(struct dlk_post *post) {
  int n = atomic_load(&ran);
  order[n] = (int)(post - posts);
  atomic_store(&ran, n + 1);
}

static void post_all(bool wake) {
  atomic_store(&ran, 0);
  for (int i = 0; i < POSTS; i++) {
    posts[i].run = note;
    CHECK(dlk_owner_post(&loop, &posts[i], wake));
  }
}

TEST(posts_run_in_order) {
  begin();
  take();
  post_all(true); /* the owner is inside: nobody runs them yet */
  CHECK(atomic_load(&ran) == 0 && !dlk_owner_post(&loop, &posts[7], true));
  dlk_owner_leave(&loop);
  while (atomic_load(&ran) < POSTS) /* the renewal thread finds them */
    usleep(1000);
  for (int i = 0; i < POSTS; i++)
    CHECK(order[i] == i);
  end();
}

TEST(a_caller_runs_it) {
  begin();
  post_all(false); /* nobody is woken for them */
  int64_t until = dlk_clock_now() + 60 * DLK_SEC;
  dlk_owner_drive(&loop, &ran, POSTS, 60 * DLK_SEC);
  CHECK(atomic_load(&ran) == POSTS && dlk_clock_now() < until);
  CHECK(atomic_load(&loop.owner) == DLK_OWNER_NONE);
  end();
}

TEST(what_is_due_is_done) {
  static struct dlk_due dues[3];
  begin();
  atomic_store(&batches, 0);
  take();
  for (int i = 0; i < 3; i++)
    dlk_timers_batch_put(&loop.timers, &dues[i], dlk_clock_now() + i, i == 1);
  dlk_owner_leave(&loop); /* and nobody comes back */
  while (atomic_load(&batches) == 0)
    usleep(1000);
  take();
  CHECK(!dues[0].node.queued);
  for (int i = 0; i < 3; i++)
    dlk_timers_batch_take(&loop.timers, &dues[i]);
  dlk_owner_leave(&loop);
  end();
}

/* Until it sleeps, until that time by itself at least. */
static int64_t asleep(int64_t at_least) {
  int64_t wake;
  while ((wake = atomic_load(&loop.sleeper.wake)) < at_least)
    usleep(1000);
  return wake;
}

static void leave_with_lax(struct dlk_due *due) {
  atomic_store(&batches, 0);
  dlk_timers_batch_put(&loop.timers, due, dlk_clock_now() + DLK_MS, true);
  dlk_owner_leave(&loop);
}

TEST(nobody_is_woken_for_what_is_lax) {
  static struct dlk_due due;
  begin();
  take();
  dlk_sleeper_signal(&loop.sleeper); /* it finds the loop owned */
  int64_t wake = asleep(dlk_clock_now() + DLK_TIMERS_LAX / 2);
  leave_with_lax(&due);
  CHECK(atomic_load(&loop.sleeper.wake) == wake || dlk_clock_now() >= wake);
  while (atomic_load(&batches) == 0) /* it looks again by itself */
    usleep(1000);
  (void)asleep(DLK_FOREVER);
  take();
  leave_with_lax(&due); /* now it would not */
  while (atomic_load(&batches) == 0)
    usleep(1000);
  end();
}

/* ---- an answer that is read without the loop ---- */

static int reads_of_one;

static bool read_one(void *of) {
  (void)of;
  reads_of_one++;
  return true;
}

/* Whether its owner waits for one answer so. */
static bool reads_it(void) {
  int before = reads_of_one;
  bool came = dlk_await(&loop, dlk_clock_now());
  CHECK(came == (reads_of_one > before));
  return came;
}

/* As a caller who waits for one answer in a loop that was just run. */
static void set_the_scene(void) {
  loop.await = read_one;
  loop.work = 1;
  loop.slice_end = dlk_clock_now() + 60 * DLK_SEC;
  loop.turned = dlk_clock_now() + 60 * DLK_SEC; /* however slow this is */
}

TEST(nothing_else_needs_who_reads) {
  static struct dlk_due due;
  begin();
  take();
  set_the_scene();
  CHECK(reads_it());
  loop.work = 2;
  CHECK(!reads_it());
  loop.work = 0;
  CHECK(!reads_it());
  set_the_scene();
  loop.slice_end = dlk_clock_now() + DLK_AWAIT_MAX / 2;
  CHECK(!reads_it());
  set_the_scene();
  loop.turned = dlk_clock_now() - 2 * DLK_AWAIT_MAX;
  CHECK(!reads_it());
  set_the_scene();
  dlk_timers_set(&loop.timers, &timer, dlk_clock_now() + DLK_AWAIT_MAX / 2);
  CHECK(!reads_it());
  dlk_timers_clear(&loop.timers, &timer);
  dlk_timers_batch_put(&loop.timers, &due, dlk_clock_now(), true);
  CHECK(!reads_it());
  dlk_timers_batch_take(&loop.timers, &due);
  atomic_store(&ran, 0);
  posts[0].run = note;
  CHECK(dlk_owner_post(&loop, &posts[0], false) && !reads_it());
  dlk_inbox_run(&loop.inbox);
  atomic_store(&loop.callers_waiting, 1);
  CHECK(!reads_it());
  atomic_store(&loop.callers_waiting, 0);
  CHECK(reads_it());
  atomic_store(&loop.resident, true);
  CHECK(!reads_it());
  atomic_store(&loop.resident, false);
  loop.work = 0;
  loop.await = NULL;
  dlk_owner_leave(&loop);
  end();
}

/* Libuv's loop is run all the same, though each answer is read so. */
TEST(the_loop_is_run_meanwhile) {
  begin();
  take();
  loop.await = read_one;
  loop.work = 1;
  reads_of_one = 0;
  int64_t turned = dlk_clock_now() - 2 * DLK_AWAIT_MAX;
  loop.turned = turned;
  atomic_store(&ran, 0);
  dlk_owner_leave(&loop);
  dlk_owner_drive(&loop, &ran, 1, 5 * DLK_AWAIT_MAX);
  dlk_owner_await(&loop); /* the renewal thread goes on with the work */
  CHECK(loop.turned > turned);
  loop.work = 0;
  loop.await = NULL;
  dlk_owner_leave(&loop);
  end();
}

TEST(nobody_posts_behind_the_end) {
  begin();
  dlk_loop_end(&loop);
  posts[0].run = note;
  CHECK(!dlk_owner_post(&loop, &posts[0], true));
  CHECK(!dlk_owner_enter(&loop, false));
  dlk_loop_destroy(&loop);
}

int main(void) {
  return check_all();
}
