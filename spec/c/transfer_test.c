/* Leases that go from one store of the process to another, by a store whose
 * leases hang on the process. The test owns the loop of the engine that has the
 * lease, so what comes meanwhile comes before that engine hears of anything. */
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "engine/ticket.h"
#include "loop/owner.h"

/* ---- a store that grants everything ---- */

static int releases;

static const char *prefix(const char *given) {
  return given ? given : "";
}

static enum dlk_code create(struct dlk_host *host, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  (void)conf;
  (void)err;
  *out = host;
  return DLK_OK;
}

static void submit(void *store, struct dlk_op *op) {
  struct dlk_host *host = store;
  if (op->kind == DLK_OP_RELEASE)
    releases++;
  if (op->kind == DLK_OP_ACQUIRE)
    op->lease->sent = host->now(host);
  host->done(host, op, NULL);
}

static void stop(void *store) {
  struct dlk_host *host = store;
  host->stopped(host);
}

static void destroy(void *store) {
  (void)store;
}

static const struct dlk_store_type type = {.abi = DLK_STORE_ABI,
                                           .name = "here",
                                           .prefix = prefix,
                                           .create = create,
                                           .submit = submit,
                                           .stop = stop,
                                           .destroy = destroy};

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

static struct dlk_ticket *ask(struct dlk_engine *e,
                              const struct dlk_request *r) {
  struct dlk_error err;
  struct dlk_ticket *t = dlk_engine_submit(e, r, false, &err);
  CHECK(t);
  return t;
}

static void ask_and_wait(struct dlk_engine *e, const struct dlk_request *r) {
  struct dlk_ticket *t = ask(e, r);
  while (!dlk_engine_drive(t, DLK_SEC))
    continue;
  dlk_ticket_unref(t);
}

static void close_one(struct dlk_engine *e) {
  const struct dlk_request close = {.task = DLK_TASK_CLOSE, .timeout = DLK_SEC};
  ask_and_wait(e, &close);
  dlk_engine_join(e);
}

static void begin(void) {
  const struct dlk_request ping = {.kind = DLK_OP_PING, .timeout = -1};
  releases = 0;
  giver = open_one();
  taker = open_one();
  ask_and_wait(giver, &ping);
  while (!dlk_owner_take(&giver->loop, DLK_OWNER_CALLER))
    usleep(1000);
}

static void end(void) {
  dlk_owner_leave(&giver->loop);
  close_one(giver);
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
  struct dlk_ticket *t = ask(giver, &acquire);
  run();
  struct dlk_hold *h = dlk_ticket_take(t);
  CHECK(h);
  dlk_ticket_unref(t);
  const struct dlk_request detach = {
      .kind = DLK_OP_DETACH, .hold = h, .timeout = DLK_SEC};
  t = ask(giver, &detach);
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
  struct dlk_ticket *t = ask(giver, &again);
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
  dlk_hold_unref(h);
  close_one(taker);
  run();
  CHECK(releases == 1);
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
  close_one(taker);
  run();
  CHECK(dlk_ticket_done(t) && dlk_ticket_error(t));
  CHECK(dlk_ticket_error(t)->code == DLK_CLOSED);
  CHECK(releases == 1);
  dlk_ticket_unref(t);
  end();
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
  close_one(taker);
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

int main(void) {
  static const struct check tests[] = {
      {"a lease moves, and ends with its new store", lease_moves},
      {"an attach that nobody waits for any more gives the lease back",
       attach_is_abandoned_before_it_begins},
      {"a store that closes while it attaches gives the lease back",
       taker_closes_before_it_begins},
      {"a fork comes while another thread looks for a lease",
       fork_comes_in_the_middle},
      {"a child that closes leaves its parent's leases alone",
       child_closes_what_only_attached},
  };
  return check_all(tests, sizeof tests / sizeof *tests);
}
