/* The ZooKeeper store's recipe where the connection or the session fails at an
 * exact moment, or another session takes over: what is lost, late or doubled,
 * where a server would have to be lucky. spec/zookeeper/units_spec.lua compiles
 * and runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "zookeeper_user.h"

/* ---- a cut, a gap, a close ---- */

TEST(a_break_whose_answer_is_lost_takes_one_hold_only) {
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
TEST(a_guard_in_the_gap_is_one_write) {
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

TEST(a_release_in_the_gap_is_ours) {
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

TEST(a_release_that_the_close_cuts_off_is_not_lost) {
  start();
  struct dlk_lease *lease = held("k");
  struct dlk_op *op = submit(DLK_OP_RELEASE, lease, NULL);
  h->type->stop(h->store);
  CHECK(ended(op, DLK_CLOSED));
  host_close(h);
  free(lease);
}

/* The confirm for the first hold is sent on a connection that is lost already,
 * and answered when the next one, for the other hold, is under way. */
TEST(an_old_confirm_ends_no_other_hold) {
  start();
  struct dlk_lease *first = held("a"), *second = held("b");
  h->skew += TIMEOUT * 3 / 8;
  host_turn(h, 0);
  CHECK(fake_waiting() > 0);
  fake_remove("/dlock/a");
  fake_away();
  fake_connected(TIMEOUT);
  h->skew += TIMEOUT / 8;
  host_turn(h, 0);
  fake_serve();
  CHECK(fake_nodes("/dlock/b") == 1);
  release(second);
  host_close(h);
  free(first);
}

/* A waiter's own node is not watched: that it was deleted is seen when it is
 * that node's turn to confirm the session. */
TEST(each_node_confirms_in_turn) {
  start();
  release(held("k"));
  fake_join(LOCK);
  struct dlk_lease *first = held("a"), *waiter = candidate("k", 0);
  struct dlk_op *wait = submit(DLK_OP_ACQUIRE, waiter, NULL);
  fake_serve();
  CHECK(fake_nodes(LOCK) == 2);
  fake_remove_one(LOCK, true);
  fake_serve();
  CHECK(fake_nodes(LOCK) == 1);
  for (int i = 0; i < 64; i++) {
    h->skew += TIMEOUT / 32;
    host_turn(h, 0);
    fake_serve();
  }
  CHECK(fake_nodes(LOCK) == 2);
  host_cancel(h, wait, DLK_CANCELLED);
  release(first);
  CHECK(ended(wait, DLK_CANCELLED));
  free(waiter);
  host_close(h);
}

/* Who takes turns writes again at once, which confirms its session; a hold that
 * lasts has no time for that. */
TEST(who_only_waits_leaves_its_next_write_a_moment) {
  const int64_t spacing = TIMEOUT / 4 + TIMEOUT / 64, moment = TIMEOUT / 100;
  start();
  h->stands_at = 1000 * DLK_SEC;
  release(held("k"));
  fake_join(LOCK);
  struct dlk_lease *waiter = candidate("k", 0);
  struct dlk_op *wait = submit(DLK_OP_ACQUIRE, waiter, NULL);
  fake_serve();
  h->stands_at += spacing;
  host_turn(h, 0);
  release(held("a"));
  h->stands_at += moment;
  host_turn(h, 0);
  fake_serve();
  CHECK(fake_executed(DLK_ZK_MULTI) == 0);
  h->stands_at += spacing;
  host_turn(h, 0);
  fake_serve();
  CHECK(fake_executed(DLK_ZK_MULTI) == 1);
  struct dlk_lease *lease = held("a");
  h->stands_at += spacing + moment;
  host_turn(h, 0);
  fake_serve();
  CHECK(fake_executed(DLK_ZK_MULTI) == 2);
  h->stands_at += spacing;
  host_turn(h, 0);
  fake_serve();
  CHECK(fake_executed(DLK_ZK_MULTI) == 3);
  host_cancel(h, wait, DLK_CANCELLED);
  release(lease);
  CHECK(ended(wait, DLK_CANCELLED));
  free(waiter);
  host_close(h);
}

/* The node that the lost create made is there, and not ours. */
TEST(a_node_of_another_session_is_never_adopted) {
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

/* Found by the list behind the sync, so it is not made again, to wait behind
 * its own first node. */
TEST(a_node_is_looked_for_behind_a_sync) {
  start();
  release(held("k"));
  size_t creates = fake_executed(DLK_ZK_CREATE);
  struct dlk_lease *lease = candidate("k", 0);
  struct dlk_op *op = submit(DLK_OP_ACQUIRE, lease, NULL);
  fake_serve_until(DLK_ZK_CREATE);
  fake_cut();
  fake_lag();
  fake_connected(TIMEOUT);
  fake_serve();
  CHECK(ended(op, DLK_OK));
  CHECK(fake_executed(DLK_ZK_CREATE) == creates + 1);
  release(lease);
  host_close(h);
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

TEST(a_cancel_is_told_as_one_also_when_cut_off) {
  a_cancel_without_a_connection(DLK_CANCELLED, DLK_CANCELLED);
  a_cancel_without_a_connection(DLK_TIMEOUT, DLK_UNAVAILABLE);
}

/* ---- which session is used ---- */

/* The library cannot even begin (an address that is none, no descriptor): it
 * is asked again a while later, and later still. */
TEST(a_session_that_cannot_be_opened_is_tried_now_and_then) {
  start();
  struct dlk_lease *lease = candidate("k", 0);
  struct dlk_op *op = submit(DLK_OP_ACQUIRE, lease, NULL);
  size_t opened = 0;
  for (int i = 0; i < 400; i++) { /* 10 seconds */
    opened += fake_links();
    fake_end(false, DLK_SS_END_FAILED);
    h->skew += DLK_SEC / 40;
    host_turn(h, 0);
  }
  CHECK(!host_over(op));
  CHECK(opened > 5 && opened < 20);
  h->skew += 2 * DLK_SEC;
  host_turn(h, 0);
  fake_connected(TIMEOUT);
  gets_it(op, lease);
  host_close(h);
}

/* Each acquire comes so late after the last that its session is a new one. */
TEST(looks_move_to_the_next_session) {
  struct dlk_op *look[12];
  start();
  release(held("k"));
  for (int i = 0; i < 12; i++) {
    look[i] = submit(DLK_OP_CHANGE, NULL, "k");
    fake_serve();
    h->skew += TIMEOUT;
    release(held("other"));
    fake_connected(TIMEOUT);
    fake_serve();
    host_turn(h, 0);
    host_turn(h, 0);
    CHECK(fake_links() <= 2);
  }
  struct dlk_lease *lease = held("k");
  for (int i = 0; i < 12; i++)
    CHECK(ended(look[i], DLK_OK));
  release(lease);
  host_close(h);
}

/* Waits for so many locks of somebody else, each given up again. go: each of
 * those is gone after that, and with it the watch on it. How many sessions are
 * open in the end, the one with our first hold among them. */
static size_t sessions_after(int waits, bool go) {
  char key[401] = "", lock[512];
  start();
  h->stands_at = h->host.now(&h->host); /* however long this takes */
  struct dlk_lease *kept = held("kept");
  memset(key, 'k', sizeof key - 1);
  for (int i = 0; i < waits; i++) {
    snprintf(lock, sizeof lock, "%04d", i);
    memcpy(key, lock, 4);
    snprintf(lock, sizeof lock, "/dlock/%s", key);
    release(held(key));
    fake_join(lock);
    struct dlk_lease *lease = candidate(key, 0);
    struct dlk_op *op = submit(DLK_OP_ACQUIRE, lease, NULL);
    fake_serve();
    host_cancel(h, op, DLK_CANCELLED);
    fake_serve();
    CHECK(ended(op, DLK_CANCELLED));
    free(lease);
    if (go)
      fake_remove(lock);
  }
  release(held("last"));
  size_t count = fake_links();
  release(kept);
  host_close(h);
  return count;
}

/* The library sets all of a session's watches anew in one packet, which must
 * not be too large for the server. */
TEST(watches_of_half_a_megabyte_fill_a_session) {
  CHECK(sessions_after(1000, false) == 1);
  CHECK(sessions_after(1200, false) == 2);
}

TEST(watches_that_are_over_fill_no_session) {
  CHECK(sessions_after(1200, true) == 1);
}

/* All of them join before one has its watch. */
TEST(waits_that_begin_together_fill_a_session) {
  static struct dlk_op *op[1200];
  char key[401] = "";
  memset(key, 'k', sizeof key - 1);
  start();
  for (size_t round = 1; round <= 2; round++) {
    int count = round == 1 ? 1000 : 1200;
    for (int i = 0; i < count; i++) {
      key[i % 400] ^= (char)(1 + i / 400);
      op[i] = submit(DLK_OP_ACQUIRE, candidate(key, 0), NULL);
    }
    CHECK(fake_links() == round);
    for (int i = 0; i < count; i++) {
      struct dlk_lease *lease = op[i]->lease;
      host_cancel(h, op[i], DLK_CANCELLED);
      CHECK(ended(op[i], DLK_CANCELLED));
      free(lease);
    }
  }
  host_close(h);
}

/* ---- how long a hold counts ---- */

/* Asked before anybody noticed that the servers proved nothing any more. */
TEST(a_hold_without_proof_is_lost_when_asked_for) {
  for (int how = 0; how < 3; how++) {
    start();
    struct dlk_lease *lease = held("k");
    h->skew += 2 * TIMEOUT;
    if (how == 0)
      h->type->renew(h->store, &lease, 1);
    else
      CHECK(
          ended(submit(how == 1 ? DLK_OP_EXTEND : DLK_OP_RELEASE, lease, NULL),
                DLK_LOST));
    CHECK(lost_why && renewals == 0);
    fake_serve();
    CHECK(fake_nodes(LOCK) == 0);
    free(lease);
    host_close(h);
  }
}

/* All is answered when what the session's opening proved is over. */
TEST(a_grant_waits_for_what_proves_the_session) {
  start();
  release(held("k"));
  struct dlk_lease *lease = candidate("k", 0);
  struct dlk_op *op = submit(DLK_OP_ACQUIRE, lease, NULL);
  h->skew += TIMEOUT;
  fake_serve();
  CHECK(!host_over(op));
  for (int i = 0; i < 64 && !host_over(op); i++) {
    h->skew += TIMEOUT / 16;
    host_turn(h, 0);
    fake_serve();
  }
  CHECK(ended(op, DLK_OK));
  CHECK(h->horizon > h->host.now(&h->host));
  release(lease);
  host_close(h);
}

TEST(a_shorter_timeout_ends_the_session) {
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
TEST(a_hold_ends_with_its_own_session_only) {
  start();
  release(held("k"));
  fake_join(LOCK);
  struct dlk_lease *first = held("a"), *second = held("b");
  struct dlk_lease *waiter = candidate("k", 0);
  struct dlk_op *wait = submit(DLK_OP_ACQUIRE, waiter, NULL);
  fake_serve();
  int64_t old = h->horizon;
  CHECK(old > 0);
  fake_refuse(DLK_ZK_DELETE, DLK_SS_NOAUTH);
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

/* A server refuses a node that exists to who may not make nodes beside it. */
TEST(a_watch_below_what_is_barred_goes_on) {
  start_in("/app");
  struct dlk_lease *other = held("other");
  fake_refuse(DLK_ZK_CREATE, DLK_SS_NOAUTH);
  struct dlk_op *look = submit(DLK_OP_CHANGE, NULL, "k");
  fake_serve();
  CHECK(!host_over(look));
  struct dlk_lease *lease = held("k");
  CHECK(host_over(look));
  CHECK(ended(look, DLK_OK));
  release(lease);
  release(other);
  host_close(h);
  start_in("/none");
  fake_refuse(DLK_ZK_CREATE, DLK_SS_NOAUTH);
  look = submit(DLK_OP_CHANGE, NULL, "k");
  fake_connected(TIMEOUT);
  fake_serve();
  CHECK(ended(look, DLK_DENIED));
  host_close(h);
}

int main(void) {
  return check_all();
}
