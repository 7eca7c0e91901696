/* The ZooKeeper store's recipe on a link that does as it is told: what is lost,
 * doubled or crosses at an exact moment, where a server would have to be lucky.
 * spec/zookeeper_units_spec.lua compiles and runs it. */
#include <string.h>

#include "check.h"
#include "host.h"
#include "store/zookeeper/zookeeper.h"
#include "zookeeper_link.h"

#define TIMEOUT (8 * DLK_SEC)
#define LOCK "/dlock/k"

static struct host *h;
static int revoked, renewals;
static const char *lost_why;

static void on_revoked(struct host *host, struct dlk_lease *lease) {
  (void)host;
  (void)lease;
  revoked++;
}

static void on_renewed(struct host *host, struct dlk_lease *lease, bool ok) {
  (void)host;
  (void)lease;
  renewals += ok;
}

static void on_lost(struct host *host, struct dlk_lease *lease,
                    const char *why) {
  (void)host;
  (void)lease;
  lost_why = why;
}

static void start(void) {
  static const struct dlk_addr at = {"server", 0};
  struct dlk_conf conf = {.shown = "zookeeper://server",
                          .scheme = "zookeeper",
                          .hosts = &at,
                          .host_count = 1,
                          .path = "",
                          .session_timeout = TIMEOUT,
                          .connect_timeout = 3 * DLK_SEC,
                          .io_timeout = 2 * DLK_SEC};
  fake_reset();
  revoked = renewals = 0;
  lost_why = NULL;
  h = host_open(&dlk_zookeeper_store, &conf, NULL);
  h->on_revoked = on_revoked;
  h->on_renewed = on_renewed;
  h->on_lost = on_lost;
}

static struct dlk_op *submit(enum dlk_op_kind kind, struct dlk_lease *lease,
                             const char *key) {
  struct dlk_op *op = host_op(h, kind, lease, key, key ? strlen(key) : 0);
  op->wait = kind == DLK_OP_ACQUIRE;
  host_submit(h, op);
  return op;
}

static struct dlk_lease *candidate(const char *key, uint32_t units) {
  return host_lease(h, key, strlen(key), (struct dlk_want){units, 0}, "me");
}

static bool ended(struct dlk_op *op, enum dlk_code code) {
  bool as_wanted = host_over(op) && host_error(op)->code == code;
  if (!as_wanted)
    printf("over: %d, %s\n", host_over(op), host_error(op)->text);
  if (host_over(op))
    host_op_free(op);
  return as_wanted;
}

/* Acquires at once, in a session that is opened if there is none. */
static struct dlk_lease *held(const char *key) {
  struct dlk_lease *lease = candidate(key, 0);
  struct dlk_op *op = submit(DLK_OP_ACQUIRE, lease, NULL);
  if (!host_over(op) && fake_waiting() == 0)
    fake_connected(TIMEOUT);
  fake_serve();
  CHECK(ended(op, DLK_OK));
  return lease;
}

static void release(struct dlk_lease *lease) {
  struct dlk_op *op = submit(DLK_OP_RELEASE, lease, NULL);
  fake_serve();
  CHECK(ended(op, DLK_OK));
  free(lease);
}

static void gets_it(struct dlk_op *op, struct dlk_lease *lease) {
  fake_serve();
  CHECK(ended(op, DLK_OK));
  release(lease);
}

/* ---- a hold that another of the same session watches already ---- */

static void extends_behind_a_waiter(void) {
  start();
  struct dlk_lease *first = held("k"), *second = candidate("k", 0);
  struct dlk_op *wait = submit(DLK_OP_ACQUIRE, second, NULL);
  fake_serve();
  struct dlk_op *extend = submit(DLK_OP_EXTEND, first, NULL);
  fake_serve();
  CHECK(ended(extend, DLK_OK));
  release(first);
  gets_it(wait, second);
  host_close(h);
}

static void renews_behind_a_waiter(void) {
  start();
  struct dlk_lease *first = held("k"), *second = candidate("k", 0);
  struct dlk_op *wait = submit(DLK_OP_ACQUIRE, second, NULL);
  fake_serve();
  h->type->renew(h->store, &first, 1);
  fake_serve();
  CHECK(renewals == 1);
  release(first);
  gets_it(wait, second);
  host_close(h);
}

static void hears_a_revoke_behind_a_waiter(void) {
  start();
  struct dlk_lease *first = held("k"), *second = candidate("k", 0);
  struct dlk_op *ask = submit(DLK_OP_REVOKE, NULL, "k");
  fake_serve();
  CHECK(ended(ask, DLK_OK));
  struct dlk_op *wait = submit(DLK_OP_ACQUIRE, second, NULL);
  fake_serve();
  CHECK(revoked == 0);
  h->type->renew(h->store, &first, 1);
  fake_serve();
  CHECK(revoked == 1 && renewals == 1);
  release(first);
  gets_it(wait, second);
  host_close(h);
}

/* ---- marks on a node ---- */

static size_t marks(const char *mark) {
  size_t len, count = 0;
  char text[512] = "";
  const char *data = fake_data(LOCK, &len);
  if (data)
    memcpy(text, data, len);
  for (const char *at = text; (at = strstr(at, mark)); at++)
    count++;
  return count;
}

static void asks_again_and_the_node_does_not_grow(void) {
  start();
  struct dlk_lease *lease = held("k");
  for (int i = 0; i < 3; i++) {
    struct dlk_op *ask = submit(DLK_OP_REVOKE, NULL, "k");
    fake_serve();
    CHECK(host_over(ask) && ask->result && ask->result->u.boolean);
    CHECK(ended(ask, DLK_OK));
  }
  CHECK(marks("revoked=1\n") == 1);
  release(lease);
  host_close(h);
}

/* Both read the node before either writes. */
static void a_downgrade_and_a_revoke_cross(void) {
  start();
  struct dlk_lease *lease = held("k");
  struct dlk_op *ask = submit(DLK_OP_REVOKE, NULL, "k");
  fake_serve_until(DLK_ZK_GET);
  struct dlk_op *down = submit(DLK_OP_DOWNGRADE, lease, NULL);
  fake_serve();
  CHECK(host_over(ask) && ask->result && ask->result->u.boolean);
  CHECK(ended(ask, DLK_OK) && ended(down, DLK_OK));
  CHECK(marks("revoked=1\n") == 1 && marks("shared=1\n") == 1);
  release(lease);
  host_close(h);
}

/* ---- answers that are lost, or late ---- */

static void a_break_whose_answer_is_lost_takes_one_hold_only(void) {
  start();
  struct dlk_lease *lease = held("k");
  fake_join(LOCK);
  struct dlk_op *cut = submit(DLK_OP_BREAK, NULL, "k");
  fake_serve_until(DLK_ZK_DELETE);
  CHECK(fake_waiting() == 1 && fake_nodes(LOCK) == 2);
  fake_cut();
  fake_connected(TIMEOUT);
  fake_serve();
  CHECK(fake_nodes(LOCK) == 1);
  CHECK(ended(cut, DLK_UNAVAILABLE));
  host_close(h);
  free(lease);
}

/* The library keeps what is sent while it has no connection, and we hear of
 * the loss and the return only after that. */
static void a_guard_in_the_gap_is_one_write(void) {
  static const char *const argv[] = {"CREATE", "/dlock/once", "x"};
  static const size_t len[] = {6, 11, 1};
  start();
  struct dlk_lease *lease = held("k");
  struct dlk_op *op = host_op(h, DLK_OP_GUARD, lease, NULL, 0);
  op->argc = 3;
  op->argv = argv;
  op->argv_len = len;
  host_submit(h, op);
  fake_away();
  fake_connected(TIMEOUT);
  fake_serve();
  CHECK(ended(op, DLK_OK));
  release(lease);
  host_close(h);
}

static void a_release_in_the_gap_is_ours(void) {
  start();
  struct dlk_lease *lease = held("k");
  struct dlk_op *op = submit(DLK_OP_RELEASE, lease, NULL);
  fake_away();
  fake_connected(TIMEOUT);
  fake_serve();
  CHECK(ended(op, DLK_OK));
  free(lease);
  host_close(h);
}

static void a_release_that_the_close_cuts_off_is_not_lost(void) {
  start();
  struct dlk_lease *lease = held("k");
  struct dlk_op *op = submit(DLK_OP_RELEASE, lease, NULL);
  h->type->stop(h->store);
  CHECK(ended(op, DLK_CLOSED));
  host_close(h);
  free(lease);
}

/* FAULTS 34: the node that the lost create made is there, and not ours. */
static void a_node_of_another_session_is_never_adopted(void) {
  start();
  release(held("k"));
  struct dlk_lease *lease = candidate("k", 0);
  struct dlk_op *op = submit(DLK_OP_ACQUIRE, lease, NULL);
  fake_serve_until(DLK_ZK_CREATE);
  fake_cut();
  CHECK(fake_nodes(LOCK) == 1);
  int64_t others = fake_disown(LOCK);
  fake_connected(TIMEOUT);
  fake_serve();
  CHECK(ended(op, DLK_OK));
  CHECK(fake_nodes(LOCK) == 1 && lease->fence > others);
  release(lease);
  host_close(h);
}

/* FAULTS 38: after each answer in turn. A hold that is taken from us is noticed
 * with the next renewal. */
static void the_lock_is_deleted_at_each_step(void) {
  bool over = false;
  for (int steps = 0; !over; steps++) {
    start();
    release(held("k"));
    struct dlk_lease *lease = candidate("k", 0);
    struct dlk_op *op = submit(DLK_OP_ACQUIRE, lease, NULL);
    for (int i = 0; i < steps; i++)
      fake_step();
    over = host_over(op);
    fake_remove(LOCK);
    fake_serve();
    CHECK(ended(op, DLK_OK));
    h->type->renew(h->store, &lease, 1);
    fake_serve();
    CHECK(over == (lost_why != NULL));
    if (over)
      free(lease);
    else
      release(lease);
    host_close(h);
  }
}

static void a_cancel_without_a_connection(enum dlk_code asked,
                                          enum dlk_code told) {
  start();
  release(held("k"));
  fake_join(LOCK);
  struct dlk_lease *lease = candidate("k", 0);
  struct dlk_op *op = submit(DLK_OP_ACQUIRE, lease, NULL);
  fake_serve();
  fake_cut();
  host_cancel(h, op, asked);
  CHECK(ended(op, told));
  fake_connected(TIMEOUT);
  fake_serve();
  CHECK(fake_nodes(LOCK) == 1);
  free(lease);
  host_close(h);
}

static void a_cancel_is_told_as_one_also_when_cut_off(void) {
  a_cancel_without_a_connection(DLK_CANCELLED, DLK_CANCELLED);
  a_cancel_without_a_connection(DLK_TIMEOUT, DLK_UNAVAILABLE);
}

/* A min_hold is over with the store: nothing is left to be done for it. */
static void a_store_with_a_resting_node_is_not_busy(void) {
  start();
  struct dlk_lease *lease = candidate("k", 0);
  lease->min_hold = DLK_SEC;
  struct dlk_op *op = submit(DLK_OP_ACQUIRE, lease, NULL);
  fake_connected(TIMEOUT);
  fake_serve();
  CHECK(ended(op, DLK_OK));
  release(lease);
  CHECK(fake_nodes(LOCK) == 1 && h->busy == 0);
  h->skew += DLK_SEC;
  host_turn(h, DLK_MS);
  CHECK(h->busy == 1);
  fake_serve();
  CHECK(fake_nodes(LOCK) == 0 && h->busy == 0);
  host_close(h);
}

/* ---- how long a hold counts ---- */

static void a_shorter_timeout_ends_the_session(void) {
  start();
  struct dlk_lease *lease = held("k");
  fake_away();
  fake_connected(TIMEOUT);
  CHECK(!lost_why);
  fake_away();
  fake_connected(TIMEOUT / 2);
  CHECK(lost_why);
  free(lease);
  host_close(h);
}

/* A node cannot be deleted, so the first session goes out of use while it has
 * a hold and somebody who waits on. */
static void a_hold_ends_with_its_own_session_only(void) {
  start();
  release(held("k"));
  fake_join(LOCK);
  struct dlk_lease *first = held("a"), *second = held("b");
  struct dlk_lease *waiter = candidate("k", 0);
  struct dlk_op *wait = submit(DLK_OP_ACQUIRE, waiter, NULL);
  fake_serve();
  int64_t old = h->horizon;
  CHECK(old > 0);
  fake_refuse(DLK_ZK_DELETE, DLK_ZK_NOAUTH);
  struct dlk_op *op = submit(DLK_OP_RELEASE, first, NULL);
  fake_serve();
  CHECK(ended(op, DLK_DENIED));
  h->skew += DLK_SEC;
  struct dlk_lease *third = held("c");
  CHECK(h->horizon == old);
  release(second);
  CHECK(h->horizon > old);
  host_cancel(h, wait, DLK_CANCELLED);
  release(third);
  CHECK(ended(wait, DLK_CANCELLED));
  free(first);
  free(waiter);
  host_close(h);
}

/* ---- who is refused ---- */

static void a_list_that_is_refused_is_denied(void) {
  start();
  struct dlk_lease *lease = held("k"), *second = candidate("k", 0);
  struct dlk_op *op = submit(DLK_OP_ACQUIRE, second, NULL);
  fake_refuse(DLK_ZK_CHILDREN, DLK_ZK_NOAUTH);
  fake_serve();
  CHECK(ended(op, DLK_DENIED));
  CHECK(fake_nodes(LOCK) == 1);
  free(second);
  release(lease);
  host_close(h);
}

static void a_node_ahead_that_is_refused_is_denied(void) {
  start();
  struct dlk_lease *lease = held("k"), *second = candidate("k", 0);
  struct dlk_op *op = submit(DLK_OP_ACQUIRE, second, NULL);
  fake_refuse(DLK_ZK_GET, DLK_ZK_NOAUTH);
  fake_serve();
  CHECK(ended(op, DLK_DENIED));
  CHECK(fake_nodes(LOCK) == 1);
  free(second);
  release(lease);
  host_close(h);
}

static const struct check tests[] = {
    {"extends_behind_a_waiter", extends_behind_a_waiter},
    {"renews_behind_a_waiter", renews_behind_a_waiter},
    {"hears_a_revoke_behind_a_waiter", hears_a_revoke_behind_a_waiter},
    {"asks_again_and_the_node_does_not_grow",
     asks_again_and_the_node_does_not_grow},
    {"a_downgrade_and_a_revoke_cross", a_downgrade_and_a_revoke_cross},
    {"a_break_whose_answer_is_lost_takes_one_hold_only",
     a_break_whose_answer_is_lost_takes_one_hold_only},
    {"a_guard_in_the_gap_is_one_write", a_guard_in_the_gap_is_one_write},
    {"a_release_in_the_gap_is_ours", a_release_in_the_gap_is_ours},
    {"a_release_that_the_close_cuts_off_is_not_lost",
     a_release_that_the_close_cuts_off_is_not_lost},
    {"a_node_of_another_session_is_never_adopted",
     a_node_of_another_session_is_never_adopted},
    {"the_lock_is_deleted_at_each_step", the_lock_is_deleted_at_each_step},
    {"a_cancel_is_told_as_one_also_when_cut_off",
     a_cancel_is_told_as_one_also_when_cut_off},
    {"a_store_with_a_resting_node_is_not_busy",
     a_store_with_a_resting_node_is_not_busy},
    {"a_shorter_timeout_ends_the_session", a_shorter_timeout_ends_the_session},
    {"a_hold_ends_with_its_own_session_only",
     a_hold_ends_with_its_own_session_only},
    {"a_list_that_is_refused_is_denied", a_list_that_is_refused_is_denied},
    {"a_node_ahead_that_is_refused_is_denied",
     a_node_ahead_that_is_refused_is_denied}};

int main(void) {
  return check_all(tests, sizeof tests / sizeof *tests);
}
