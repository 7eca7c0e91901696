/* The list that all contenders of a session share, on a link that does as it is
 * told. spec/zookeeper/units_spec.lua compiles and runs it. */
#include <stdlib.h>

#include "check.h"
#include "zookeeper_user.h"

#define CROWD 60

static struct dlk_lease *lease[CROWD];
static struct dlk_op *op[CROWD];

static void comes(int i, uint32_t units) {
  lease[i] = candidate("k", units);
  op[i] = submit(DLK_OP_ACQUIRE, lease[i], NULL);
}

static void crowd_comes(uint32_t units) {
  for (int i = 0; i < CROWD; i++)
    comes(i, units);
}

static void crowd_holds(void) {
  for (int i = 0; i < CROWD; i++)
    CHECK(ended(op[i], DLK_OK));
  for (int i = 0; i < CROWD; i++)
    release(lease[i]);
}

/* Two as they come: the first one's, and that of all who came meanwhile; one
 * when the writer leaves, which lets in those behind the first, too. */
TEST(a_crowd_of_readers_costs_three_lists) {
  start();
  struct dlk_lease *writer = held("k");
  size_t lists = fake_executed(DLK_ZK_CHILDREN);
  size_t reads = fake_executed(DLK_ZK_GET);
  crowd_comes(1);
  fake_serve();
  CHECK(fake_executed(DLK_ZK_CHILDREN) == lists + 2);
  CHECK(fake_executed(DLK_ZK_GET) == reads + 1);
  release(writer);
  fake_serve();
  CHECK(fake_executed(DLK_ZK_CHILDREN) == lists + 3);
  crowd_holds();
  host_close(h);
}

/* Each hand-off to a writer costs one, however many wait. */
TEST(a_crowd_of_writers_costs_a_list_for_each) {
  start();
  struct dlk_lease *writer = held("k");
  size_t lists = fake_executed(DLK_ZK_CHILDREN);
  crowd_comes(0);
  fake_serve();
  CHECK(fake_executed(DLK_ZK_CHILDREN) == lists + 2);
  h->skew += 100 * DLK_MS; /* who is second needs none, but not for long */
  release(writer);
  for (int i = 0; i < CROWD; i++)
    gets_it(op[i], lease[i]);
  CHECK(fake_executed(DLK_ZK_CHILDREN) <= lists + 2 + CROWD);
  host_close(h);
}

/* A list that was sent before its create does not show it. */
TEST(who_comes_behind_a_list_is_not_taken_for_deleted) {
  start();
  struct dlk_lease *writer = held("k");
  size_t created = fake_executed(DLK_ZK_CREATE);
  comes(0, 1);
  comes(1, 1);
  fake_serve_until(DLK_ZK_CHILDREN);
  fake_step(); /* the first one's list: the second one is not there yet */
  CHECK(fake_nodes(LOCK) == 2);
  fake_serve();
  CHECK(fake_nodes(LOCK) == 3);
  CHECK(fake_executed(DLK_ZK_CREATE) == created + 2);
  release(writer);
  gets_it(op[0], lease[0]);
  gets_it(op[1], lease[1]);
  host_close(h);
}

static struct dlk_op *tries(struct dlk_lease *of) {
  struct dlk_op *try = host_op(h, DLK_OP_ACQUIRE, of, NULL, 0);
  host_submit(h, try);
  return try;
}

/* What is free by a list that was sent after the second try began is no
 * `busy`, whatever the first one's list showed. */
TEST(a_try_is_told_by_no_list_of_before) {
  start();
  release(held("k"));
  fake_join(LOCK);
  struct dlk_lease *one = candidate("k", 0), *two = candidate("k", 0);
  struct dlk_op *first = tries(one), *second = tries(two);
  fake_step();
  fake_step(); /* sync and list of the first one */
  fake_remove_one(LOCK, true);
  fake_serve();
  CHECK(ended(first, DLK_BUSY));
  CHECK(ended(second, DLK_OK));
  release(two);
  free(one);
  host_close(h);
}

/* Whatever the cut met, each has one node afterwards, and its turn. */
TEST(a_crowd_survives_a_cut_at_each_step) {
  for (int steps = 0; steps < CROWD + 5; steps++) {
    start();
    struct dlk_lease *writer = held("k");
    crowd_comes(1);
    for (int i = 0; i < steps; i++)
      fake_step();
    (steps % 2 ? fake_cut : fake_drop)();
    size_t lists = fake_executed(DLK_ZK_CHILDREN);
    fake_connected(TIMEOUT);
    fake_serve();
    CHECK(fake_nodes(LOCK) == CROWD + 1);
    CHECK(fake_executed(DLK_ZK_CHILDREN) <= lists + 5);
    release(writer);
    fake_serve();
    crowd_holds();
    CHECK(fake_nodes(LOCK) == 0);
    host_close(h);
  }
}

/* Its lists go with a session; those who asked go on in the next one. */
TEST(a_crowd_survives_its_session_at_each_step) {
  for (int steps = 0; steps < CROWD + 5; steps += 3) {
    start();
    release(held("k"));
    fake_join(LOCK);
    crowd_comes(1);
    for (int i = 0; i < steps; i++)
      fake_step();
    fake_expire();
    fake_connected(TIMEOUT);
    fake_serve();
    CHECK(fake_nodes(LOCK) == CROWD + 1);
    fake_remove_one(LOCK, false);
    fake_serve();
    crowd_holds();
    host_close(h);
  }
}

/* Who leaves while a list is under way is told nothing by it. */
TEST(who_gives_up_is_told_by_no_list) {
  start();
  struct dlk_lease *writer = held("k");
  for (int i = 0; i < 4; i++)
    comes(i, 1);
  fake_serve_until(DLK_ZK_CHILDREN);
  host_cancel(h, op[0], DLK_CANCELLED);
  host_cancel(h, op[2], DLK_CANCELLED);
  fake_serve();
  CHECK(ended(op[0], DLK_CANCELLED) && ended(op[2], DLK_CANCELLED));
  CHECK(fake_nodes(LOCK) == 3);
  free(lease[0]);
  free(lease[2]);
  release(writer);
  gets_it(op[1], lease[1]);
  gets_it(op[3], lease[3]);
  host_close(h);
}

/* Where nobody removes an empty lock's node, who leaves last does. */
TEST(a_server_without_containers_gets_plain_nodes) {
  for (int steps = 0; steps < 6; steps++) {
    start_in("/app");
    fake_refuse(DLK_ZK_CREATE, DLK_SS_UNKNOWN);
    struct dlk_lease *one = held("k"), *two = candidate("k", 0);
    CHECK(fake_mode("/app/dlock") == DLK_ZK_PERSISTENT);
    CHECK(fake_mode("/app/dlock/k") == DLK_ZK_PERSISTENT);
    struct dlk_op *leaves = submit(DLK_OP_RELEASE, one, NULL);
    for (int i = 0; i < steps; i++)
      fake_step();
    struct dlk_op *comes_in = submit(DLK_OP_ACQUIRE, two, NULL);
    fake_serve();
    CHECK(ended(leaves, DLK_OK) && ended(comes_in, DLK_OK));
    CHECK(fake_nodes("/app/dlock/k") == 1);
    free(one);
    release(two);
    CHECK(fake_nodes("/app/dlock") == 0);
    host_close(h);
  }
}

/* The same where only a change is waited for. */
TEST(a_watch_without_containers_goes_on) {
  start();
  release(held("other"));
  fake_refuse(DLK_ZK_CREATE, DLK_SS_UNKNOWN);
  struct dlk_op *watch = submit(DLK_OP_CHANGE, NULL, "k");
  fake_serve();
  CHECK(!host_over(watch));
  CHECK(fake_mode("/dlock/k") == DLK_ZK_PERSISTENT);
  struct dlk_lease *one = held("k");
  CHECK(ended(watch, DLK_OK));
  release(one);
  host_close(h);
}

int main(void) {
  return check_all();
}
