/* The ZooKeeper store's recipe on a link that does as it is told: what crosses
 * or is refused at an exact moment, and how much is asked of the server.
 * spec/zookeeper/units_spec.lua compiles and runs it. */
#include <string.h>

#include "check.h"
#include "zookeeper_user.h"

/* ---- a hold that another of the same session watches already ---- */

TEST(extends_behind_a_waiter) {
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

TEST(renews_behind_a_waiter) {
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

TEST(hears_a_revoke_behind_a_waiter) {
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

/* ---- the second in the queue ---- */

/* The clock stands still from here on. */
static void stop_clock(void) {
  h->stands_at = h->host.now(&h->host);
}

TEST(who_is_second_needs_no_list_to_be_first) {
  start();
  struct dlk_lease *first = held("k"), *second = candidate("k", 0);
  stop_clock();
  struct dlk_op *wait = submit(DLK_OP_ACQUIRE, second, NULL);
  fake_serve();
  size_t lists = fake_executed(DLK_ZK_CHILDREN);
  h->stands_at += 20 * DLK_MS;
  release(first);
  CHECK(host_over(wait) && fake_executed(DLK_ZK_CHILDREN) == lists);
  CHECK(second->sent == h->stands_at);
  gets_it(wait, second);
  host_close(h);
}

/* The node ahead is gone before it can be watched. */
TEST(who_is_second_may_come_too_late_to_watch) {
  start();
  struct dlk_lease *first = held("k"), *second = candidate("k", 0);
  size_t lists = fake_executed(DLK_ZK_CHILDREN);
  stop_clock();
  struct dlk_op *wait = submit(DLK_OP_ACQUIRE, second, NULL);
  struct dlk_op *end = submit(DLK_OP_RELEASE, first, NULL);
  fake_serve();
  CHECK(ended(end, DLK_OK) && fake_executed(DLK_ZK_CHILDREN) == lists + 1);
  free(first);
  gets_it(wait, second);
  host_close(h);
}

/* Who has waited for longer looks whether its own node is still there. */
TEST(a_waiter_whose_node_is_deleted_joins_anew) {
  start();
  struct dlk_lease *first = held("k"), *second = candidate("k", 0);
  stop_clock();
  struct dlk_op *wait = submit(DLK_OP_ACQUIRE, second, NULL);
  fake_serve();
  h->stands_at += 21 * DLK_MS;
  fake_remove_one(LOCK, true);
  CHECK(fake_nodes(LOCK) == 1);
  release(first);
  CHECK(host_over(wait) && fake_nodes(LOCK) == 1);
  gets_it(wait, second);
  host_close(h);
}

/* Within that time it does not look, and is like a holder whose node is
 * deleted: it hears of that by the watch on its node. */
TEST(a_waiter_let_in_without_its_node_hears_of_it) {
  start();
  struct dlk_lease *first = held("k"), *second = candidate("k", 0);
  stop_clock();
  struct dlk_op *wait = submit(DLK_OP_ACQUIRE, second, NULL);
  fake_serve();
  fake_remove_one(LOCK, true);
  release(first);
  CHECK(ended(wait, DLK_OK) && fake_nodes(LOCK) == 0 && !lost_why);
  h->stands_at += 200 * DLK_MS;
  host_turn(h, DLK_MS);
  fake_serve();
  CHECK(lost_why);
  free(second);
  host_close(h);
}

static void is_lost_before(struct host *host, struct dlk_op *op,
                           const struct dlk_error *err) {
  (void)host;
  (void)err;
  CHECK(op->kind != DLK_OP_ACQUIRE || lost_why);
}

/* Also where both are in one process. */
TEST(a_broken_holder_hears_of_it_before_the_next_one_holds) {
  start();
  struct dlk_lease *first = held("k"), *second = candidate("k", 0);
  stop_clock();
  struct dlk_op *wait = submit(DLK_OP_ACQUIRE, second, NULL);
  fake_serve();
  h->type->renew(h->store, &first, 1);
  h->on_done = is_lost_before;
  struct dlk_op *ask = submit(DLK_OP_BREAK, NULL, "k");
  fake_serve();
  CHECK(ended(ask, DLK_OK) && lost_why);
  h->on_done = NULL;
  free(first);
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

TEST(asks_again_and_the_node_does_not_grow) {
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

/* Executed or not: the node is read again when there is a connection. */
static void a_downgrade_is_settled(void (*lose)(void), bool cancelled) {
  start();
  struct dlk_lease *lease = held("k");
  struct dlk_op *down = submit(DLK_OP_DOWNGRADE, lease, NULL);
  fake_serve_until(DLK_ZK_SET);
  lose();
  CHECK(!host_over(down));
  if (cancelled)
    host_cancel(h, down, DLK_TIMEOUT);
  CHECK(!host_over(down));
  fake_connected(TIMEOUT);
  fake_serve();
  CHECK(ended(down, DLK_OK));
  CHECK(marks("shared=1\n") == 1);
  release(lease);
  host_close(h);
}

TEST(a_downgrade_whose_answer_is_lost_is_settled) {
  a_downgrade_is_settled(fake_cut, false);
  a_downgrade_is_settled(fake_drop, false);
  a_downgrade_is_settled(fake_cut, true);
}

/* Both read the node before either writes. */
TEST(a_downgrade_and_a_revoke_cross) {
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

/* The mark is written on the version that was read: a write in between makes
 * it read again, and not take the other's for its own. */
TEST(a_revoke_that_crosses_a_write_reads_again) {
  start();
  struct dlk_lease *lease = held("k");
  struct dlk_op *op = submit(DLK_OP_REVOKE, NULL, "k");
  fake_refuse(DLK_ZK_SET, DLK_SS_VERSION);
  fake_serve();
  CHECK(ended(op, DLK_OK));
  size_t len;
  const char *data = fake_data(LOCK, &len);
  CHECK(data && memmem(data, len, "revoked=1", 9));
  release(lease);
  host_close(h);
}

/* ---- what comes in between ---- */

/* The container is removed after each answer in turn. A hold that is taken from
 * us is noticed with the next renewal. */
TEST(the_lock_is_deleted_at_each_step) {
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

/* ---- what a wait costs ---- */

TEST(a_try_on_a_held_key_writes_nothing) {
  start();
  struct dlk_lease *lease = held("k"), *second = candidate("k", 0);
  size_t creates = fake_executed(DLK_ZK_CREATE);
  for (int i = 0; i < 3; i++) {
    struct dlk_op *op = host_op(h, DLK_OP_ACQUIRE, second, NULL, 0);
    host_submit(h, op);
    fake_serve();
    CHECK(strcmp(op->holder, "me") == 0);
    CHECK(ended(op, DLK_BUSY));
  }
  CHECK(fake_executed(DLK_ZK_CREATE) == creates);
  CHECK(fake_executed(DLK_ZK_DELETE) == 0);
  release(lease);
  struct dlk_op *op = host_op(h, DLK_OP_ACQUIRE, second, NULL, 0);
  host_submit(h, op);
  gets_it(op, second);
  host_close(h);
}

/* So many that the list of children is watched. */
TEST(a_release_costs_one_list_however_many_wait) {
  enum { PERMITS = 20, ALL = 45 };
  struct dlk_lease *lease[ALL];
  struct dlk_op *op[ALL];
  start();
  release(held("k"));
  for (int i = 0; i < ALL; i++) {
    lease[i] = host_lease(h, "k", 1, (struct dlk_want){1, PERMITS}, "me");
    op[i] = submit(DLK_OP_ACQUIRE, lease[i], NULL);
    fake_serve();
    CHECK(host_over(op[i]) == (i < PERMITS));
  }
  for (int i = 0; i < ALL; i++) {
    size_t before = fake_executed(DLK_ZK_CHILDREN);
    CHECK(ended(op[i], DLK_OK));
    release(lease[i]);
    CHECK(fake_executed(DLK_ZK_CHILDREN) <= before + 3);
  }
  host_close(h);
}

/* However long it waited: its ttl counts from when the list was asked for that
 * lets it in. */
TEST(one_of_many_that_waited_for_long_has_all_of_its_ttl) {
  enum { PERMITS = 20, ALL = 22 };
  struct dlk_lease *lease[ALL];
  struct dlk_op *op[ALL];
  start();
  release(held("k"));
  stop_clock();
  for (int i = 0; i < ALL; i++) {
    lease[i] = host_lease(h, "k", 1, (struct dlk_want){1, PERMITS}, "me");
    op[i] = submit(DLK_OP_ACQUIRE, lease[i], NULL);
    fake_serve();
  }
  h->stands_at += TIMEOUT / 2;
  struct dlk_op *end = submit(DLK_OP_RELEASE, lease[0], NULL);
  fake_serve_until(DLK_ZK_CHILDREN);
  int64_t asked = h->stands_at;
  h->stands_at += 100 * DLK_MS;
  fake_serve();
  CHECK(ended(end, DLK_OK) && host_over(op[PERMITS]));
  CHECK(lease[PERMITS]->sent == asked);
  CHECK(ended(op[0], DLK_OK));
  free(lease[0]);
  for (int i = 1; i < ALL; i++) {
    CHECK(ended(op[i], DLK_OK));
    release(lease[i]);
  }
  host_close(h);
}

/* Who waits on the list of children hears that its own node was deleted. */
TEST(one_of_many_whose_node_is_deleted_joins_anew) {
  enum { PERMITS = 20, ALL = 30 };
  struct dlk_lease *lease[ALL];
  struct dlk_op *op[ALL];
  start();
  release(held("k"));
  for (int i = 0; i < ALL; i++) {
    lease[i] = host_lease(h, "k", 1, (struct dlk_want){1, PERMITS}, "me");
    op[i] = submit(DLK_OP_ACQUIRE, lease[i], NULL);
    fake_serve();
  }
  fake_remove_one(LOCK, true);
  CHECK(fake_nodes(LOCK) == ALL - 1);
  fake_serve();
  CHECK(fake_nodes(LOCK) == ALL);
  for (int i = 0; i < ALL; i++) {
    CHECK(ended(op[i], DLK_OK));
    release(lease[i]);
  }
  host_close(h);
}

/* The server takes containers away when they are empty, and nothing else: a
 * key costs it no memory when it is not used any more. The chroot is kept. */
TEST(all_but_the_chroot_is_made_of_containers) {
  start_in("/app");
  struct dlk_lease *lease = held("k");
  CHECK(fake_mode("/app") == DLK_ZK_PERSISTENT);
  CHECK(fake_mode("/app/dlock") == DLK_ZK_CONTAINER);
  CHECK(fake_mode("/app/dlock/k") == DLK_ZK_CONTAINER);
  release(lease);
  host_close(h);
}

/* ---- who is refused ---- */

TEST(a_list_that_is_refused_is_denied) {
  start();
  struct dlk_lease *lease = held("k"), *second = candidate("k", 0);
  struct dlk_op *op = submit(DLK_OP_ACQUIRE, second, NULL);
  fake_refuse(DLK_ZK_CHILDREN, DLK_SS_NOAUTH);
  fake_serve();
  CHECK(ended(op, DLK_DENIED));
  CHECK(fake_nodes(LOCK) == 1);
  free(second);
  release(lease);
  host_close(h);
}

TEST(a_node_ahead_that_is_refused_is_denied) {
  start();
  struct dlk_lease *lease = held("k"), *second = candidate("k", 0);
  struct dlk_op *op = submit(DLK_OP_ACQUIRE, second, NULL);
  fake_refuse(DLK_ZK_GET, DLK_SS_NOAUTH);
  fake_serve();
  CHECK(ended(op, DLK_DENIED));
  CHECK(fake_nodes(LOCK) == 1);
  free(second);
  release(lease);
  host_close(h);
}

/* A create whose answer was lost, and nobody lets us look for the node. */
static void may_not_look(void (*lose)(void), enum dlk_zk_verb verb,
                         bool cancelled) {
  start();
  release(held("k"));
  struct dlk_lease *lease = candidate("k", 0);
  struct dlk_op *op = submit(DLK_OP_ACQUIRE, lease, NULL);
  fake_serve_until(DLK_ZK_CREATE);
  lose();
  if (cancelled)
    host_cancel(h, op, DLK_CANCELLED);
  fake_refuse(verb, DLK_SS_NOAUTH);
  fake_connected(TIMEOUT);
  fake_serve();
  CHECK(ended(op, cancelled ? DLK_CANCELLED : DLK_DENIED));
  host_turn(h, 0);
  CHECK(fake_nodes(LOCK) == 0); /* its session has ended */
  release(held("k"));
  free(lease);
  host_close(h);
}

TEST(a_search_that_is_refused_is_denied) {
  void (*loses[])(void) = {fake_cut, fake_drop};
  for (int i = 0; i < 4; i++) {
    may_not_look(loses[i % 2], DLK_ZK_SYNC, i / 2);
    may_not_look(loses[i % 2], DLK_ZK_CHILDREN, i / 2);
  }
  may_not_look(fake_cut, DLK_ZK_GET, false);
}

TEST(a_look_that_is_refused_is_denied) {
  start();
  struct dlk_lease *lease = held("k"), *second = candidate("k", 0);
  struct dlk_op *op = host_op(h, DLK_OP_ACQUIRE, second, NULL, 0);
  host_submit(h, op);
  fake_refuse(DLK_ZK_SYNC, DLK_SS_NOAUTH);
  fake_serve();
  CHECK(ended(op, DLK_DENIED));
  free(second);
  release(lease);
  host_close(h);
}

int main(void) {
  return check_all();
}
