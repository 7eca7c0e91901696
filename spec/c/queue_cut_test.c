/* What is left of a change of the file store's queue that ends in its middle: a
 * store dies between two of its commits, the disk is full from some write on, a
 * grant crosses a cancel, the fences are used up. Several stores, each with its
 * own host and loop, use one key; nobody may stay in the table whom nobody
 * answers for, and no wake-up may be lost. The death of a store is that the
 * kernel closes its pipe and its files: its host never runs again. Linked with
 * --wrap=pwrite64. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "host.h"
#include "store/file/file.h"
#include "store/file/recipe/op.h"

#define STORES 5
#define READERS 24
#define PATIENCE (10 * DLK_SEC)

struct entry {
  int store;
  struct dlk_lease *lease;
  struct dlk_op *op;
};

static char dir[64];
static struct host *stores[STORES];
static struct entry entries[60];

static struct host *open_store(void) {
  struct dlk_conf conf = {.shown = dir, .scheme = "file", .path = dir};
  return host_open(&dlk_file_store, &conf, NULL);
}

static void turn_all(void) {
  for (int i = 0; i < STORES; i++)
    if (stores[i]->used)
      host_turn(stores[i], 0);
}

static void clear(struct entry *e) {
  host_op_free(e->op);
  free(e->lease);
  memset(e, 0, sizeof *e);
}

/* ---- a death between two commits ---- */

static jmp_buf died;
static int commits_left;     /* 0: nobody dies */
static int good_commits;     /* 0: all; else the one after so many fails */
static int writes_left = -1; /* -1: no limit; then the disk is full */

ssize_t __real_pwrite64(int fd, const void *data, size_t n, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t n, off_t at);

/* A commit is the write of one of the two headers. */
ssize_t __wrap_pwrite64(int fd, const void *data, size_t n, off_t at) {
  bool header = (at == 0 || at == 2048) && n > sizeof(struct dlk_file_slot);
  if (writes_left == 0) {
    errno = ENOSPC;
    return -1;
  }
  if (writes_left > 0)
    writes_left--;
  if (header && good_commits > 0 && good_commits-- == 1) {
    errno = ENOSPC;
    return -1;
  }
  ssize_t done = __real_pwrite64(fd, data, n, at);
  if (header && commits_left > 0 && --commits_left == 0)
    longjmp(died, 1);
  return done;
}

static struct entry *stand(int store, struct dlk_want want) {
  static int count;
  struct entry *e = &entries[count++ % (int)(sizeof entries / sizeof *entries)];
  struct host *h = stores[store];
  e->lease = host_lease(h, "many", 4, want, "test");
  e->op = host_op(h, DLK_OP_ACQUIRE, e->lease, NULL, 0);
  e->op->wait = true;
  e->store = store;
  host_submit(h, e->op);
  return e;
}

static void give_back(struct entry *e) {
  struct dlk_op *op =
      host_op(stores[e->store], DLK_OP_RELEASE, e->lease, NULL, 0);
  host_submit(stores[e->store], op);
  CHECK(host_wait(stores[e->store], op, DLK_SEC));
  CHECK(host_error(op)->code == DLK_OK);
  host_op_free(op);
  clear(e);
}

static bool all_hold(struct entry *const *readers) {
  for (int i = 0; i < READERS; i++)
    if (!host_over(readers[i]->op))
      return false;
  return true;
}

/* The kernel closes the pipe, and the file with its mutex. */
static void end_of_store(int i) {
  const struct dlk_file_store *s = stores[i]->store;
  int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  const struct dlk_list *l = s->dir.recent.next;
  for (; l != &s->dir.recent; l = l->next)
    dup2(nothing, DLK_CONTAINER(l, struct dlk_file_key, link)->fd);
  dup2(nothing, s->dir.wake);
  close(nothing);
}

/* While the stores' clocks stand still none of their timers comes for a wake-up
 * that is lost. */
static void clocks_stand(bool still) {
  for (int i = 0; i < STORES; i++)
    stores[i]->stands_at = still ? dlk_clock_now() : 0;
}

/* False when the release is through before that many commits. */
static bool dies_after(int commits) {
  struct entry *readers[READERS];
  clocks_stand(true);
  struct entry *writer = stand(0, (struct dlk_want){0, 0});
  CHECK(host_wait(stores[0], writer->op, DLK_SEC));
  for (int i = 0; i < READERS; i++)
    readers[i] = stand(1 + i % (STORES - 1), (struct dlk_want){1, 0});
  struct dlk_op *op =
      host_op(stores[0], DLK_OP_RELEASE, writer->lease, NULL, 0);
  volatile bool dead_now = true;
  commits_left = commits;
  if (setjmp(died) == 0) {
    host_submit(stores[0], op);
    dead_now = commits_left == 0;
    commits_left = 0;
  }
  struct host *dead_one = stores[0];
  if (dead_now) {
    end_of_store(0);
    stores[0] = open_store();
    stores[0]->stands_at = dlk_clock_now();
  }
  int64_t until = dlk_clock_now() + PATIENCE;
  while (!all_hold(readers) && dlk_clock_now() < until)
    turn_all();
  CHECK(all_hold(readers));
  for (int i = 0; i < READERS; i++)
    give_back(readers[i]);
  clocks_stand(false);
  if (dead_now)
    host_close(dead_one);
  host_op_free(op);
  clear(writer);
  return dead_now;
}

TEST(deaths_in_a_grant) {
  int commits = 1;
  while (dies_after(commits))
    commits++;
  CHECK(commits > 3);
}

/* A waiter's place is committed, and what it does for the dead ahead of it is
 * not, because the disk is full just then: it does not end with its place in
 * the queue left behind. */
TEST(full_disk) {
  struct entry *holder = stand(0, (struct dlk_want){0, 0}), *waiters[READERS];
  CHECK(host_wait(stores[0], holder->op, DLK_SEC));
  for (int i = 0; i < READERS; i++)
    waiters[i] = stand(1, (struct dlk_want){0, 0});
  struct host *dead_one = stores[1];
  end_of_store(1);
  stores[1] = open_store();
  good_commits = 2;
  struct entry *last = stand(2, (struct dlk_want){0, 0});
  CHECK(good_commits == 0);
  give_back(holder);
  for (int64_t until = dlk_clock_now() + DLK_SEC;
       !host_over(last->op) && dlk_clock_now() < until;)
    turn_all();
  bool got = host_over(last->op) && host_error(last->op)->code == DLK_OK;
  if (got)
    give_back(last);
  else
    clear(last);
  struct entry *next = stand(3, (struct dlk_want){0, 0});
  CHECK(host_wait(stores[3], next->op, DLK_SEC));
  CHECK(got);
  give_back(next);
  host_close(dead_one);
  for (int i = 0; i < READERS; i++)
    clear(waiters[i]);
}

/* And a number of turns at least, should it stand still for all of the time. */
static void turn_for(int64_t time, struct entry *const *readers) {
  int64_t until = dlk_clock_now() + time;
  int turns = 0;
  while (!all_hold(readers) && (turns++ < 50 || dlk_clock_now() < until))
    turn_all();
}

/* Readers wait for a writer, and the disk is full after so many writes of what
 * lets them in: either that failed, and none of them is in, or not. False when
 * there are no more writes. */
static bool lets_in(enum dlk_op_kind kind, int writes) {
  struct entry *readers[READERS];
  struct entry *writer = stand(0, (struct dlk_want){0, 0});
  CHECK(host_wait(stores[0], writer->op, DLK_SEC));
  for (int i = 0; i < READERS; i++)
    readers[i] = stand(1 + i % (STORES - 1), (struct dlk_want){1, 0});
  struct dlk_op *op = host_op(stores[0], kind, writer->lease, NULL, 0);
  writes_left = writes;
  host_submit(stores[0], op);
  turn_for(5 * DLK_MS, readers);
  bool all_written = writes_left > 0;
  if (kind == DLK_OP_DOWNGRADE)
    CHECK(host_over(op));
  if (host_over(op) && host_error(op)->code != DLK_OK)
    for (int i = 0; i < READERS; i++)
      CHECK(!host_over(readers[i]->op));
  writes_left = -1;
  CHECK(host_wait(stores[0], op, DLK_SEC));
  bool failed = host_error(op)->code != DLK_OK;
  CHECK(!failed || kind == DLK_OP_DOWNGRADE);
  host_op_free(op);
  if (failed || kind == DLK_OP_DOWNGRADE)
    give_back(writer);
  else
    clear(writer);
  turn_for(DLK_SEC, readers);
  CHECK(all_hold(readers));
  for (int i = 0; i < READERS; i++)
    give_back(readers[i]);
  return !all_written;
}

TEST(full_disk_lets_in) {
  static const enum dlk_op_kind kinds[] = {DLK_OP_DOWNGRADE, DLK_OP_RELEASE};
  for (int k = 0; k < 2; k++) {
    int writes = 0;
    while (lets_in(kinds[k], writes))
      writes++;
    CHECK(writes > 10);
  }
}

static int slots_of(const struct host *h) {
  const struct dlk_file_store *s = h->store;
  static struct dlk_file_table t;
  char path[96];
  int n = 0;
  snprintf(path, sizeof path, "%s/many", dir);
  int fd = open(path, O_RDONLY);
  CHECK(dlk_file_table_load(&t, fd) == 0);
  for (uint32_t i = 1; i <= t.head.slots; i++) {
    const struct dlk_file_slot *slot = dlk_file_table_at(&t, i);
    n += slot->list != DLK_FILE_FREE && slot->instance == s->dir.instance;
  }
  close(fd);
  return n;
}

static struct dlk_op *watch(int store) {
  struct dlk_op *op = host_op(stores[store], DLK_OP_CHANGE, NULL, "many", 4);
  host_submit(stores[store], op);
  return op;
}

/* One comes to wait (or: to watch) where many have died, and the disk is full
 * after so many writes: it does not end with its entry left behind. */
static bool comes(bool to_watch, int writes) {
  struct dlk_op *dead_ops[READERS];
  struct dlk_op *first = watch(2); /* so that store 2 is connected */
  for (int i = 0; i < READERS; i++)
    dead_ops[i] = watch(1);
  struct entry *holder = stand(1, (struct dlk_want){0, 0}), *e = NULL;
  CHECK(host_wait(stores[1], holder->op, DLK_SEC));
  CHECK(host_wait(stores[2], first, DLK_SEC));
  host_op_free(first);
  struct host *dead_one = stores[1];
  end_of_store(1);
  stores[1] = open_store();
  writes_left = writes;
  if (!to_watch)
    e = stand(2, (struct dlk_want){0, 0});
  struct dlk_op *op = to_watch ? watch(2) : e->op;
  bool all_written = writes_left > 0;
  bool over = host_over(op);
  writes_left = -1;
  if (!over) {
    host_cancel(stores[2], op, DLK_CANCELLED);
    CHECK(host_wait(stores[2], op, DLK_SEC));
  }
  bool holds = !to_watch && host_error(op)->code == DLK_OK;
  if (holds)
    give_back(e);
  CHECK(slots_of(stores[2]) == 0);
  if (to_watch)
    host_op_free(op);
  else if (!holds)
    clear(e);
  host_close(dead_one);
  clear(holder);
  for (int i = 0; i < READERS; i++)
    host_op_free(dead_ops[i]);
  return !all_written;
}

TEST(full_disk_comes) {
  for (int to_watch = 0; to_watch < 2; to_watch++) {
    int writes = 0;
    while (comes(to_watch, writes))
      writes++;
    CHECK(writes > 10);
  }
}

static void set_fence(int64_t fence) {
  static struct dlk_file_table t;
  char path[96];
  snprintf(path, sizeof path, "%s/many", dir);
  int fd = open(path, O_RDWR);
  CHECK(dlk_file_table_load(&t, fd) == 0);
  t.head.fence = fence;
  t.changed = true;
  CHECK(dlk_file_table_commit(&t) == 0);
  close(fd);
}

static void check_refused(int store) {
  struct entry *e = stand(store, (struct dlk_want){0, 0});
  CHECK(host_over(e->op));
  CHECK(host_error(e->op)->code == DLK_UNSUPPORTED);
  clear(e);
}

/* The lock is ours in the table when its waiter gives up without having seen
 * that: it is handed on, so that the engine gives it back. */
TEST(grant_crosses_cancel) {
  struct entry *holder = stand(0, (struct dlk_want){0, 0});
  CHECK(host_wait(stores[0], holder->op, DLK_SEC));
  struct entry *waiter = stand(1, (struct dlk_want){0, 0});
  give_back(holder);
  CHECK(!host_over(waiter->op));
  host_cancel(stores[1], waiter->op, DLK_CANCELLED);
  CHECK(host_wait(stores[1], waiter->op, DLK_SEC));
  CHECK(host_error(waiter->op)->code == DLK_OK);
  give_back(waiter);
  struct entry *next = stand(2, (struct dlk_want){0, 0});
  CHECK(host_wait(stores[2], next->op, DLK_SEC));
  give_back(next);
}

/* Nobody gets a fence that not every Lua can show. Who waits will get one: it
 * is refused when it comes, not when somebody lets it in. It has to be last. */
TEST(fences_end) {
  struct entry *held[3];
  give_back(stand(0, (struct dlk_want){0, 0}));
  set_fence(DLK_FILE_FENCES - 3);
  for (int i = 0; i < 3; i++)
    held[i] = stand(i, (struct dlk_want){0, 0});
  check_refused(3);
  for (int i = 0; i < 3; i++) {
    CHECK(host_wait(stores[i], held[i]->op, DLK_SEC));
    CHECK(held[i]->lease->fence == DLK_FILE_FENCES - 2 + i);
    give_back(held[i]);
  }
  check_refused(0);
}

static void remove_all(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", dir);
  if (system(command) != 0)
    abort();
}

int main(void) {
  strcpy(dir, "/tmp/dlock-test-queue-XXXXXX");
  if (mkdtemp(dir) == NULL)
    abort();
  for (int i = 0; i < STORES; i++)
    stores[i] = open_store();
  int bad = check_all();
  for (int i = 0; i < STORES && !bad; i++)
    host_close(stores[i]);
  remove_all();
  return bad;
}
