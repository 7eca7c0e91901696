/* What stands in for a holder with a min_hold, on a link that does as it is
 * told. spec/zookeeper/units_spec.lua compiles and runs it. */
#include <stdlib.h>

#include "check.h"
#include "core/value.h"
#include "zookeeper_user.h"

/* Time passes only when it is told to, however slow this is. */
static struct dlk_op *asks_for(int64_t min_hold, struct dlk_lease **lease) {
  start();
  h->stands_at = h->host.now(&h->host);
  *lease = candidate("k", 0);
  (*lease)->min_hold = min_hold;
  struct dlk_op *op = submit(DLK_OP_ACQUIRE, *lease, NULL);
  fake_connected(TIMEOUT);
  return op;
}

static struct dlk_op *asks(struct dlk_lease **lease) {
  return asks_for(DLK_SEC, lease);
}

/* Held in a store that begins with it, and kept for a second. */
static struct dlk_lease *kept(void) {
  struct dlk_lease *lease;
  struct dlk_op *op = asks(&lease);
  fake_serve();
  CHECK(ended(op, DLK_OK));
  CHECK(fake_nodes(LOCK) == 2);
  return lease;
}

static void pass(int64_t time) {
  h->stands_at += time;
  host_turn(h, DLK_MS);
}

/* In steps: what is asked for at a time is answered before the next. */
static void pass_and_serve(int64_t time) {
  for (int i = 0; i < 20; i++) {
    pass(time / 20);
    fake_serve();
  }
}

/* Whoever comes waits for its end, by the servers' clock, and gets the lock. */
static void comes_next(void) {
  struct dlk_lease *lease = candidate("k", 0);
  struct dlk_op *op = submit(DLK_OP_ACQUIRE, lease, NULL);
  fake_connected(TIMEOUT);
  pass_and_serve(DLK_SEC / 2);
  CHECK(!host_over(op));
  pass_and_serve(DLK_SEC);
  gets_it(op, lease);
  CHECK(fake_nodes(LOCK) == 0 && h->busy == 0);
}

TEST(a_release_leaves_its_stand_in) {
  release(kept());
  CHECK(fake_nodes(LOCK) == 1 && h->busy == 0);
  pass_and_serve(DLK_SEC / 2);
  CHECK(fake_nodes(LOCK) == 1);
  pass_and_serve(DLK_SEC);
  CHECK(fake_nodes(LOCK) == 0 && h->busy == 0);
  host_close(h);
}

/* Late, or of what nobody counts on; the answers are lost, or not. */
TEST(a_release_that_ends_it_deletes_both) {
  for (int how = 0; how < 4; how++) {
    struct dlk_lease *lease = kept();
    if (how % 2 == 0)
      pass_and_serve(2 * DLK_SEC);
    struct dlk_op *op = host_op(h, DLK_OP_RELEASE, lease, NULL, 0);
    op->unused = how % 2 == 1;
    host_submit(h, op);
    if (how >= 2) {
      fake_drop();
      fake_connected(TIMEOUT);
      pass(DLK_SEC / 5);
    }
    fake_serve();
    CHECK(ended(op, DLK_OK));
    CHECK(fake_nodes(LOCK) == 0 && h->busy == 0);
    host_close(h);
    free(lease);
  }
}

TEST(a_release_of_a_broken_hold_is_lost) {
  struct dlk_lease *lease = kept();
  fake_remove(LOCK);
  struct dlk_op *op = submit(DLK_OP_RELEASE, lease, NULL);
  fake_serve();
  CHECK(ended(op, DLK_LOST));
  host_close(h);
  free(lease);
}

/* The holder's session ends; others have their turn when the time is over. */
TEST(a_stand_in_outlives_the_session) {
  struct dlk_lease *lease = kept();
  fake_expire();
  host_turn(h, 0);
  CHECK(lost_why && fake_nodes(LOCK) == 1);
  comes_next();
  host_close(h);
  free(lease);
}

/* Its holder gives the min_hold up, and the session ends before the server
 * hears of that. */
TEST(a_stand_in_that_is_given_up_goes_with_the_next_session) {
  struct dlk_lease *lease;
  struct dlk_op *asked = asks_for(60 * DLK_SEC, &lease);
  fake_serve();
  CHECK(ended(asked, DLK_OK) && fake_nodes(LOCK) == 2);
  struct dlk_op *op = host_op(h, DLK_OP_RELEASE, lease, NULL, 0);
  op->unused = true;
  host_submit(h, op);
  fake_expire();
  host_turn(h, 0);
  CHECK(ended(op, DLK_LOST) && fake_nodes(LOCK) == 1);
  pass(0);
  fake_connected(TIMEOUT);
  pass_and_serve(2 * DLK_SEC);
  CHECK(fake_nodes(LOCK) == 0 && h->busy == 0);
  host_close(h);
  free(lease);
}

/* Nobody is told of the grant before its stand-in is there. executed: it is,
 * and the answer is lost. */
TEST(a_grant_waits_for_its_stand_in) {
  for (int executed = 0; executed < 2; executed++) {
    struct dlk_lease *lease;
    struct dlk_op *op = asks(&lease);
    fake_serve_until(DLK_ZK_MULTI);
    CHECK(!host_over(op) && fake_nodes(LOCK) == 1);
    if (executed)
      fake_cut();
    else
      fake_drop();
    CHECK(!host_over(op));
    fake_connected(TIMEOUT);
    pass_and_serve(DLK_SEC / 4);
    CHECK(ended(op, DLK_OK));
    CHECK(fake_nodes(LOCK) == 2);
    release(lease);
    CHECK(fake_nodes(LOCK) == 1);
    comes_next();
    host_close(h);
  }
}

/* Its own node is deleted before, so it begins anew; with a stand-in, or none,
 * that nobody was told of. */
TEST(a_node_that_is_gone_gets_no_stand_in) {
  for (int made = 0; made < 2; made++) {
    struct dlk_lease *lease;
    struct dlk_op *op = asks(&lease);
    fake_serve_until(DLK_ZK_MULTI);
    if (made) {
      fake_cut();
      fake_remove_one(LOCK, false);
      fake_connected(TIMEOUT);
      pass(DLK_SEC / 5);
    } else {
      fake_remove_one(LOCK, false);
    }
    pass_and_serve(DLK_SEC / 5);
    CHECK(ended(op, DLK_OK));
    CHECK(fake_nodes(LOCK) == 2);
    release(lease);
    CHECK(fake_nodes(LOCK) == 1);
    host_close(h);
  }
}

/* Its session has to be proven once more before it may hold, by checks of other
 * nodes, and its own is deleted in that time: what stands in for it is no place
 * in the queue. */
TEST(a_stand_in_is_not_taken_for_its_node) {
  start();
  h->stands_at = h->host.now(&h->host);
  struct dlk_lease *leases[] = {held("j"), candidate("j", 0), candidate("j", 0),
                                candidate("k", 0)};
  struct dlk_op *ops[4] = {NULL};
  leases[3]->min_hold = DLK_SEC;
  for (int i = 1; i < 4; i++) {
    ops[i] = submit(DLK_OP_ACQUIRE, leases[i], NULL);
    fake_serve_until(DLK_ZK_MULTI);
  }
  h->stands_at += TIMEOUT - DLK_SEC / 20; /* no hold counts any more */
  fake_step();
  CHECK(!host_over(ops[3]) && fake_nodes(LOCK) == 2);
  fake_remove_one(LOCK, false);
  pass_and_serve(10 * DLK_SEC);
  CHECK(ended(ops[3], DLK_OK));
  CHECK(fake_nodes(LOCK) == 2);
  host_close(h);
  host_op_free(ops[1]);
  host_op_free(ops[2]);
  for (int i = 0; i < 4; i++)
    free(leases[i]);
}

/* A wait that ends, or a session that does, while it is being made. */
TEST(a_stand_in_of_nobody_goes) {
  for (int how = 0; how < 3; how++) {
    struct dlk_lease *lease;
    struct dlk_op *op = asks(&lease);
    fake_serve_until(DLK_ZK_MULTI);
    if (how == 2) {
      fake_step_unheard();
      fake_expire();
      host_turn(h, 0);
      fake_connected(TIMEOUT);
      fake_serve();
      CHECK(ended(op, DLK_OK));
      CHECK(fake_nodes(LOCK) == 2); /* those of the second attempt */
    } else {
      if (how == 1)
        fake_cut();
      host_cancel(h, op, DLK_TIMEOUT);
      fake_connected(TIMEOUT);
      pass_and_serve(DLK_SEC / 5);
      CHECK(ended(op, how == 1 ? DLK_UNAVAILABLE : DLK_TIMEOUT));
      CHECK(fake_nodes(LOCK) == 0 && h->busy == 0);
    }
    host_close(h);
    free(lease);
  }
}

/* It lists before the stand-in is made, and deletes the node after that. */
TEST(a_break_ends_what_comes_in_between) {
  struct dlk_lease *lease;
  struct dlk_op *op = asks(&lease);
  fake_serve_until(DLK_ZK_MULTI);
  struct dlk_op *broken = submit(DLK_OP_BREAK, NULL, "k");
  fake_step();
  CHECK(fake_nodes(LOCK) == 2);
  fake_serve();
  CHECK(ended(broken, DLK_OK));
  CHECK(fake_nodes(LOCK) == 0);
  CHECK(ended(op, DLK_OK));
  host_close(h);
  free(lease);
}

/* What is over is held by nobody; what is not, by the one that is gone. */
TEST(a_look_goes_by_the_servers_clock) {
  struct dlk_lease *lease = kept();
  int64_t fence = lease->fence;
  fake_expire();
  host_turn(h, 0);
  for (int over = 0; over < 2; over++) {
    struct dlk_op *locked = submit(DLK_OP_LOCKED, NULL, "k");
    struct dlk_op *seen = submit(DLK_OP_INSPECT, NULL, "k");
    struct dlk_op *change = host_op(h, DLK_OP_CHANGE, NULL, "k", 1);
    change->fence = over ? 0 : fence;
    host_submit(h, change);
    fake_connected(TIMEOUT);
    fake_serve();
    CHECK(host_over(locked) && host_over(seen));
    CHECK(locked->result->u.boolean == !over);
    CHECK((seen->result->kind == DLK_VALUE_NIL) == over);
    CHECK(!host_over(change));
    host_cancel(h, change, DLK_TIMEOUT);
    host_op_free(locked);
    host_op_free(seen);
    host_op_free(change);
    fake_serve();
    h->stands_at += 2 * DLK_SEC; /* and nobody else asks for the time */
  }
  host_close(h);
  free(lease);
}

/* What it left is taken back behind it. */
TEST(a_try_ends_with_its_time) {
  for (int steps = 0; steps < 4; steps++) {
    start();
    release(held("k"));
    struct dlk_lease *lease = candidate("k", 0);
    struct dlk_op *op = host_op(h, DLK_OP_ACQUIRE, lease, NULL, 0);
    host_submit(h, op);
    for (int i = 0; i < steps; i++)
      fake_step();
    if (steps == 3)
      fake_join(LOCK);
    host_cancel(h, op, DLK_UNAVAILABLE);
    CHECK(ended(op, DLK_UNAVAILABLE));
    fake_serve();
    CHECK(fake_nodes(LOCK) == (steps == 3));
    CHECK(h->busy == 0);
    free(lease);
    host_close(h);
  }
}

int main(void) {
  return check_all();
}
