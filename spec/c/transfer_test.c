/* Leases that go from one store of the process to another, by a store whose
 * leases hang on the process. The test owns the loop of the engine that has the
 * lease, so what comes meanwhile comes before that engine hears of anything. */
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/ticket.h"
#include "engine_store.h"
#include "loop/owner.h"

/* ---- a store that grants everything ---- */

static int releases;
static bool slow; /* a release is answered by the test, or never */
static struct dlk_op *releasing;

static void submit(void *store, struct dlk_op *op) {
  struct dlk_host *h = store;
  if (op->kind == DLK_OP_RELEASE)
    releases++;
  if (op->kind == DLK_OP_RELEASE && slow) {
    releasing = op;
    return;
  }
  if (op->kind == DLK_OP_ACQUIRE)
    op->lease->sent = h->now(h);
  h->done(h, op, NULL);
}

static void cancel(void *store, struct dlk_op *op) {
  (void)store;
  (void)op;
}

static const struct dlk_store_type type = {.abi = DLK_STORE_ABI,
                                           .name = "here",
                                           .prefix = store_prefix,
                                           .create = store_create,
                                           .submit = submit,
                                           .cancel = cancel,
                                           .stop = store_stop,
                                           .destroy = store_destroy};

/* ---- two engines, and the loop of the first is ours ---- */

static struct dlk_engine *giver, *taker;

static struct dlk_engine *open_one(void) {
  const struct dlk_conf conf = {
      .shown = "here:", .scheme = "", .path = "", .io_timeout = DLK_SEC};
  struct dlk_error err;
  struct dlk_engine *e = dlk_engine_new(&type, &conf, "me", &err);
  CHECK(e);
  return e;
}

static void begin(void) {
  releases = 0;
  giver = open_one();
  taker = open_one();
  ping(giver);
  while (!dlk_owner_take(&giver->loop, DLK_OWNER_CALLER))
    usleep(1000);
}

static void end(void) {
  dlk_owner_leave(&giver->loop);
  close_and_join(giver, DLK_SEC);
  dlk_engine_unref(giver);
  dlk_engine_unref(taker);
}

/* What was asked of it comes now. */
static void run(void) {
  dlk_inbox_run(&giver->loop.inbox);
}

/* ---- a lease on its way ---- */

/* The text of a lease that was detached, to be freed. */
static char *detached(void) {
  const struct dlk_request acquire = {.kind = DLK_OP_ACQUIRE,
                                      .key = "k",
                                      .key_len = 1,
                                      .renew = true,
                                      .ttl = 60 * DLK_SEC,
                                      .max_hold = DLK_FOREVER,
                                      .timeout = DLK_SEC};
  struct dlk_ticket *t = ask_of(giver, &acquire, false);
  run();
  struct dlk_hold *h = dlk_ticket_take(t);
  CHECK(h);
  dlk_ticket_unref(t);
  const struct dlk_request detach = {
      .kind = DLK_OP_DETACH, .hold = h, .timeout = DLK_SEC};
  t = ask_of(giver, &detach, false);
  run();
  CHECK(dlk_ticket_done(t) && dlk_ticket_take_text(t));
  const struct dlk_value *v = dlk_ticket_result(t);
  char *text = strndup(v->u.string.data, v->u.string.len);
  dlk_ticket_unref(t);
  dlk_hold_unref(h);
  return text;
}

/* The taker's request for it, of which the giver has not heard yet. */
static struct dlk_ticket *attach(void) {
  char *text = detached();
  struct dlk_hold *h = dlk_detached_find(taker, text, strlen(text));
  CHECK(h);
  const struct dlk_request again = {.task = DLK_TASK_REATTACH,
                                    .kind = DLK_OP_ATTACH,
                                    .hold = h,
                                    .listener = taker,
                                    .renew = true,
                                    .timeout = DLK_SEC};
  struct dlk_ticket *t = ask_of(giver, &again, false);
  dlk_hold_unref(h);
  free(text);
  return t;
}

/* ---- the tests ---- */

static void lease_moves(void) {
  begin();
  struct dlk_ticket *t = attach();
  run();
  struct dlk_hold *h = dlk_ticket_take(t);
  CHECK(h && dlk_hold_remaining(h) > 0);
  dlk_ticket_unref(t);
  close_and_join(taker, DLK_SEC);
  CHECK(dlk_hold_remaining(h) == 0 && !dlk_hold_is_lost(h));
  run();
  CHECK(releases == 1 && !dlk_hold_is_lost(h));
  dlk_hold_unref(h);
  end();
}

static void attach_is_abandoned_before_it_begins(void) {
  begin();
  struct dlk_ticket *t = attach();
  dlk_ticket_unref(t);
  run();
  CHECK(releases == 1);
  end();
}

static void taker_closes_before_it_begins(void) {
  begin();
  struct dlk_ticket *t = attach();
  close_and_join(taker, DLK_SEC);
  run();
  CHECK(dlk_ticket_done(t) && dlk_ticket_error(t));
  CHECK(dlk_ticket_error(t)->code == DLK_CLOSED);
  CHECK(releases == 1);
  dlk_ticket_unref(t);
  end();
}

enum end { RELEASED, LOST, STOPPED };

/* What a release says that comes while one is under way, because the store was
 * closed that had attached the lease. */
static enum dlk_code release_behind_close(enum end how) {
  static const struct dlk_error lost = {.code = DLK_LOST};
  begin();
  struct dlk_ticket *t = attach();
  run();
  struct dlk_hold *h = dlk_ticket_take(t);
  CHECK(h);
  dlk_ticket_unref(t);
  slow = true;
  close_and_join(taker, DLK_SEC);
  run();
  const struct dlk_request release = {
      .kind = DLK_OP_RELEASE, .hold = h, .timeout = DLK_FOREVER};
  t = ask_of(giver, &release, false);
  run();
  CHECK(releases == 1 && !dlk_ticket_done(t));
  slow = false;
  if (how != STOPPED)
    giver->host.done(&giver->host, releasing, how ? &lost : NULL);
  dlk_hold_unref(h);
  end();
  CHECK(releases == 1 && dlk_ticket_done(t));
  const struct dlk_error *err = dlk_ticket_error(t);
  enum dlk_code code = err ? err->code : DLK_OK;
  dlk_ticket_unref(t);
  return code;
}

static void release_waits_for_one_under_way(void) {
  CHECK(release_behind_close(RELEASED) == DLK_OK);
  CHECK(release_behind_close(LOST) == DLK_LOST);
  CHECK(release_behind_close(STOPPED) == DLK_CLOSED);
}

/* ---- children of forks ---- */

/* Whether a child that does so ends well; one that hangs is killed. */
static bool child_ends_well(bool (*part)(void)) {
  int status;
  pid_t pid = fork();
  if (pid == 0) {
    alarm(10);
    _exit(part() ? 0 : 1);
  }
  return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static atomic_bool looks;

static void *look_all_the_time(void *text) {
  while (atomic_load(&looks))
    if (dlk_detached_find(taker, text, strlen(text)))
      abort();
  return NULL;
}

static bool child_detaches(void) {
  taker = giver = open_one();
  free(detached());
  return dlk_detached_was_here("here-", 5) == false;
}

/* Another thread is in the list, and not in the child. */
static void fork_comes_in_the_middle(void) {
  static char text[] = "here-nowhere";
  pthread_t thread;
  begin();
  for (int i = 0; i < 100; i++)
    free(detached());
  atomic_store(&looks, true);
  CHECK(pthread_create(&thread, NULL, look_all_the_time, text) == 0);
  bool well = true;
  for (int i = 0; i < 100 && well; i++)
    well = child_ends_well(child_detaches);
  atomic_store(&looks, false);
  pthread_join(thread, NULL);
  CHECK(well);
  end();
}

/* What it attached is its parent's. */
static bool child_closes_taker(void) {
  close_and_join(taker, DLK_SEC);
  return dlk_inbox_empty(&giver->loop.inbox);
}

static void child_closes_what_only_attached(void) {
  begin();
  struct dlk_ticket *t = attach();
  run();
  struct dlk_hold *h = dlk_ticket_take(t);
  CHECK(h && child_ends_well(child_closes_taker));
  CHECK(dlk_hold_remaining(h) > 0);
  dlk_ticket_unref(t);
  dlk_hold_unref(h);
  end();
}

/* With any argument those that fork, which ThreadSanitizer does not follow. */
int main(int argc, char **argv) {
  static const struct check tests[] = {
      {"a lease moves, and ends with its new store", lease_moves},
      {"an attach that nobody waits for any more gives the lease back",
       attach_is_abandoned_before_it_begins},
      {"a store that closes while it attaches gives the lease back",
       taker_closes_before_it_begins},
      {"a release waits for the one that is under way",
       release_waits_for_one_under_way},
  };
  static const struct check children[] = {
      {"a fork comes while another thread looks for a lease",
       fork_comes_in_the_middle},
      {"a child that closes leaves its parent's leases alone",
       child_closes_what_only_attached},
  };
  (void)argv;
  if (argc > 1)
    return check_all(children, sizeof children / sizeof *children);
  return check_all(tests, sizeof tests / sizeof *tests);
}
