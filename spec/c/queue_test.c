/* The file store's queue against a plain sequential model.
 *
 * Several stores, each with its own host and loop, use one key in random
 * histories of acquire, try, cancel, release and sudden death. After each
 * event the loops run until what the model says to be held is held; then
 * nothing else may be, fences must have risen in the order of the queue, and
 * it must have gone by wake-ups: the stores' clocks stand still, so that none
 * of their timers comes for a wake-up that is lost.
 * A death is the closing of the store's pipe by the kernel, and nothing more:
 * its host never runs again. (One between two commits: queue_cut_test.c.)
 * usage: queue_test [EVENTS] */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "host.h"
#include "store/file/file.h"
#include "store/file/recipe/op.h"

#define STORES 5
#define ENTRIES 60
#define PATIENCE (10 * DLK_SEC)

enum state { NONE, WAITING, HELD };

struct entry {
  enum state model, real;
  int store;
  uint64_t order;
  int64_t fence;
  struct dlk_want want;
  struct dlk_lease *lease;
  struct dlk_op *op;
};

static char dir[64];
static struct host *stores[STORES];
static struct entry entries[ENTRIES], remains[3 * ENTRIES];
static struct host *dead[3];
static int dead_count, remain_count;
static uint64_t orders;
static int64_t last_fence, slowest;
static long deaths, grants, queue_events = 20000;

/* ---- the model ---- */

static bool fits(const struct entry *e) {
  uint64_t used = 0;
  for (int i = 0; i < ENTRIES; i++) {
    if (entries[i].model != HELD)
      continue;
    if (entries[i].want.units == 0 || e->want.units == 0)
      return false;
    used += entries[i].want.units;
  }
  return e->want.cap == 0 || used + e->want.units <= e->want.cap;
}

static struct entry *head(void) {
  struct entry *h = NULL;
  for (int i = 0; i < ENTRIES; i++)
    if (entries[i].model == WAITING &&
        (h == NULL || entries[i].order < h->order))
      h = &entries[i];
  return h;
}

/* ---- the real thing ---- */

static void on_done(struct host *h, struct dlk_op *op,
                    const struct dlk_error *err) {
  (void)h;
  if (op->kind == DLK_OP_ACQUIRE) {
    for (int i = 0; i < ENTRIES; i++) {
      struct entry *e = &entries[i];
      if (e->op != op)
        continue;
      e->real = err == NULL ? HELD : NONE;
      if (err == NULL)
        e->fence = op->lease->fence;
    }
  }
}

static struct host *open_store(void) {
  struct dlk_conf conf = {.shown = dir, .scheme = "file", .path = dir};
  struct host *h = host_open(&dlk_file_store, &conf, NULL);
  h->on_done = on_done;
  h->stands_at = dlk_clock_now();
  return h;
}

static void turn_all(void) {
  for (int i = 0; i < STORES; i++)
    if (stores[i]->used)
      host_turn(stores[i], 0);
}

static bool settled(void) {
  for (int i = 0; i < ENTRIES; i++)
    if (entries[i].model != entries[i].real)
      return false;
  return true;
}

static void clear(struct entry *e) {
  host_op_free(e->op);
  free(e->lease);
  memset(e, 0, sizeof *e);
}

static void settle(void) {
  struct entry *granted[ENTRIES], *e;
  int n = 0;
  while ((e = head()) != NULL && fits(e)) {
    e->model = HELD;
    granted[n++] = e;
  }
  int64_t began = dlk_clock_now(), took = 0;
  while (!settled() && took < PATIENCE) {
    turn_all();
    took = dlk_clock_now() - began;
  }
  if (took > slowest)
    slowest = took;
  turn_all();
  CHECK(settled());
  for (int i = 0; i < n; i++) {
    CHECK(granted[i]->fence > last_fence);
    last_fence = granted[i]->fence;
    grants++;
  }
}

/* ---- events ---- */

/* Readers or permits: a key has one limit while anybody is there. */
static struct dlk_want random_want(void) {
  static const struct dlk_want wants[2][4] = {{{0, 0}, {1, 0}, {1, 0}, {1, 0}},
                                              {{0, 0}, {1, 3}, {2, 3}, {1, 3}}};
  static int kind;
  bool alone = remain_count == 0;
  for (int i = 0; i < ENTRIES; i++)
    alone = alone && entries[i].lease == NULL;
  if (alone)
    kind = (int)check_random(2);
  return wants[kind][check_random(4)];
}

static void acquire(bool wait) {
  struct entry *e = NULL;
  for (int i = 0; e == NULL && i < ENTRIES; i++)
    if (entries[i].lease == NULL)
      e = &entries[i];
  if (e == NULL)
    return;
  e->store = (int)check_random(STORES);
  struct host *h = stores[e->store];
  e->want = random_want();
  e->lease = host_lease(h, "key", 3, e->want, "test");
  e->op = host_op(h, DLK_OP_ACQUIRE, e->lease, NULL, 0);
  e->op->wait = wait;
  bool free_now = head() == NULL && fits(e);
  e->order = ++orders;
  e->model = wait ? WAITING : free_now ? HELD : NONE;
  e->real = WAITING;
  host_submit(h, e->op);
  settle();
  if (!wait && free_now) {
    CHECK(e->fence > last_fence);
    last_fence = e->fence;
  }
  if (e->model == NONE)
    clear(e);
}

static struct entry *pick(enum state state) {
  uint32_t from = check_random(ENTRIES);
  for (uint32_t i = 0; i < ENTRIES; i++) {
    struct entry *e = &entries[(from + i) % ENTRIES];
    if (e->model == state)
      return e;
  }
  return NULL;
}

static void release(void) {
  struct entry *e = pick(HELD);
  if (e == NULL)
    return;
  struct dlk_op *op =
      host_op(stores[e->store], DLK_OP_RELEASE, e->lease, NULL, 0);
  e->model = e->real = NONE;
  host_submit(stores[e->store], op);
  CHECK(host_wait(stores[e->store], op, DLK_SEC));
  CHECK(host_error(op)->code == DLK_OK);
  host_op_free(op);
  settle();
  clear(e);
}

static void cancel(void) {
  struct entry *e = pick(WAITING);
  if (e == NULL)
    return;
  e->model = NONE;
  host_cancel(stores[e->store], e->op, DLK_CANCELLED);
  settle();
  clear(e);
}

/* The kernel's part of a death: the pipe's description is closed (its number
 * stays taken, so that nothing else gets it). Then nobody drives it, until
 * everyone else has drawn the consequences and its memory can go. */
static void death(void) {
  int i = (int)check_random(STORES);
  if (!stores[i]->used)
    return;
  const struct dlk_file_store *s = stores[i]->store;
  int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0 || dup2(nothing, s->dir.wake) < 0)
    abort();
  close(nothing);
  dead[dead_count++] = stores[i];
  stores[i] = open_store();
  for (int j = 0; j < ENTRIES; j++) {
    struct entry *e = &entries[j];
    if (e->lease == NULL || e->store != i)
      continue;
    remains[remain_count++] = *e;
    memset(e, 0, sizeof *e);
  }
  deaths++;
}

static void bury(void) {
  while (dead_count > 0)
    host_close(dead[--dead_count]);
  while (remain_count > 0)
    clear(&remains[--remain_count]);
}

TEST(histories) {
  uint32_t busy = 50, deadly = 250;
  for (long i = 0; i < queue_events; i++) {
    if (i % 500 == 0) {
      busy = 20 + check_random(60);
      deadly = check_random(3) == 0 ? 15 : 250;
    }
    uint32_t dice = check_random(100);
    if (check_random(deadly) == 0) {
      for (uint32_t n = 1 + check_random(3); n > 0; n--)
        death();
      settle();
      bury();
    }
    if (dice < busy / 2)
      acquire(true);
    else if (dice < busy / 2 + 10)
      acquire(false);
    else if (dice < busy / 2 + 20)
      cancel();
    else
      release();
  }
}

static void remove_all(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", dir);
  if (system(command) != 0)
    abort();
}

int main(int argc, char **argv) {
  if (argc > 1)
    queue_events = atol(argv[1]);
  strcpy(dir, "/tmp/dlock-test-queue-XXXXXX");
  if (mkdtemp(dir) == NULL)
    abort();
  for (int i = 0; i < STORES; i++)
    stores[i] = open_store();
  int bad = check_all();
  if (getenv("VERBOSE") != NULL)
    printf("%ld grants from a queue, %ld deaths, slowest %.3f ms\n", grants,
           deaths, (double)slowest / (double)DLK_MS);
  for (int i = 0; i < STORES && !bad; i++)
    host_close(stores[i]);
  for (int i = 0; i < ENTRIES && !bad; i++)
    clear(&entries[i]);
  remove_all();
  return bad;
}
