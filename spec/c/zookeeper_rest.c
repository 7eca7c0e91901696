/* What min_hold keeps after its release, on a link that does as it is told: the
 * node that rests, and how the release is answered meanwhile.
 * spec/zookeeper/units_spec.lua compiles and runs it. */
#include "check.h"
#include "zookeeper_user.h"

/* Held in a store that begins with it, and kept for a second. */
static struct dlk_lease *kept(void) {
  start();
  h->stands_at = h->host.now(&h->host); /* however slow this is */
  struct dlk_lease *lease = candidate("k", 0);
  lease->min_hold = DLK_SEC;
  struct dlk_op *op = submit(DLK_OP_ACQUIRE, lease, NULL);
  fake_connected(TIMEOUT);
  fake_serve();
  CHECK(ended(op, DLK_OK));
  return lease;
}

static void pass(int64_t time) {
  h->stands_at += time;
  host_turn(h, DLK_MS);
}

/* Its second is over. */
static void rest_is_over(void) {
  pass(DLK_SEC);
}

/* A min_hold is over with the store: nothing is left to be done for it. */
static void a_store_with_a_resting_node_is_not_busy(void) {
  release(kept());
  CHECK(fake_nodes(LOCK) == 1 && h->busy == 0);
  rest_is_over();
  CHECK(h->busy == 1);
  fake_serve();
  CHECK(fake_nodes(LOCK) == 0 && h->busy == 0);
  host_close(h);
}

/* Broken before the release; while its check is under way on a connection that
 * breaks; and after its check was executed, which nobody is told. */
static void a_release_that_rests_asks_for_its_node(void) {
  for (int when = 0; when < 3; when++) {
    struct dlk_lease *lease = kept();
    size_t multis = fake_executed(DLK_ZK_MULTI);
    if (when == 0)
      fake_remove(LOCK);
    struct dlk_op *op = submit(DLK_OP_RELEASE, lease, NULL);
    CHECK(!host_over(op));
    if (when == 1)
      fake_drop();
    else if (when == 2)
      fake_cut();
    if (when > 0)
      fake_remove(LOCK);
    CHECK(!host_over(op));
    fake_connected(TIMEOUT);
    fake_serve();
    CHECK(ended(op, DLK_LOST));
    CHECK(fake_executed(DLK_ZK_MULTI) == multis + (when == 2 ? 2 : 1));
    rest_is_over();
    CHECK(fake_waiting() == 0 && h->busy == 0);
    host_close(h);
    free(lease);
  }
}

/* The answer to its check is lost: it is asked for again. late: we hear of that
 * when we are connected again. */
static void a_release_that_rests_is_answered_after_a_cut(void) {
  for (int late = 0; late < 2; late++) {
    struct dlk_lease *lease = kept();
    if (late)
      fake_refuse(DLK_ZK_MULTI, DLK_ZK_CUT);
    struct dlk_op *op = submit(DLK_OP_RELEASE, lease, NULL);
    if (late)
      fake_serve();
    else
      fake_cut();
    CHECK(!host_over(op));
    fake_connected(TIMEOUT);
    pass(DLK_SEC / 2);
    fake_serve();
    CHECK(ended(op, DLK_OK));
    CHECK(fake_nodes(LOCK) == 1);
    rest_is_over();
    fake_serve();
    CHECK(fake_nodes(LOCK) == 0 && h->busy == 0);
    host_close(h);
    free(lease);
  }
}

/* The answer to its check is not there yet when the rest is over. broken: the
 * node is deleted after the check, or before it. */
static void a_release_that_rests_is_answered_by_the_delete(void) {
  for (int broken = 0; broken < 3; broken++) {
    struct dlk_lease *lease = kept();
    struct dlk_op *op = submit(DLK_OP_RELEASE, lease, NULL);
    rest_is_over();
    if (broken == 2)
      fake_remove(LOCK);
    fake_step();
    if (broken == 1)
      fake_remove(LOCK);
    CHECK(host_over(op) == (broken == 2));
    fake_serve();
    CHECK(ended(op, broken ? DLK_LOST : DLK_OK));
    CHECK(fake_nodes(LOCK) == 0 && h->busy == 0);
    host_close(h);
    free(lease);
  }
}

/* Its check says that the node is gone, the answer to its delete is lost: the
 * delete met nothing. */
static void a_release_whose_check_failed_is_not_saved_by_a_cut(void) {
  struct dlk_lease *lease = kept();
  struct dlk_op *op = submit(DLK_OP_RELEASE, lease, NULL);
  rest_is_over();
  fake_remove(LOCK);
  fake_step();
  fake_cut();
  fake_connected(TIMEOUT);
  fake_serve();
  CHECK(ended(op, DLK_LOST));
  host_close(h);
  free(lease);
}

/* Nobody answers in time, or the check is refused: its caller is told, and the
 * node goes when its rest is over. */
static void a_release_that_rests_ends_without_an_answer(void) {
  for (int refused = 0; refused < 2; refused++) {
    struct dlk_lease *lease = kept();
    struct dlk_op *op = submit(DLK_OP_RELEASE, lease, NULL);
    if (refused) {
      fake_refuse(DLK_ZK_MULTI, DLK_ZK_NOAUTH);
    } else {
      fake_drop();
      host_cancel(h, op, DLK_TIMEOUT);
      CHECK(ended(op, DLK_UNAVAILABLE));
      fake_connected(TIMEOUT);
    }
    fake_serve();
    if (refused)
      CHECK(ended(op, DLK_DENIED));
    CHECK(fake_nodes(LOCK) == 1 && h->busy == 0);
    rest_is_over();
    fake_serve();
    CHECK(fake_nodes(LOCK) == 0 && h->busy == 0);
    host_close(h);
    free(lease);
  }
}

/* What it left is taken back behind it. */
static void a_try_ends_with_its_time(void) {
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

static const struct check tests[] = {
    {"a_try_ends_with_its_time", a_try_ends_with_its_time},
    {"a_store_with_a_resting_node_is_not_busy",
     a_store_with_a_resting_node_is_not_busy},
    {"a_release_that_rests_asks_for_its_node",
     a_release_that_rests_asks_for_its_node},
    {"a_release_that_rests_is_answered_after_a_cut",
     a_release_that_rests_is_answered_after_a_cut},
    {"a_release_that_rests_is_answered_by_the_delete",
     a_release_that_rests_is_answered_by_the_delete},
    {"a_release_whose_check_failed_is_not_saved_by_a_cut",
     a_release_whose_check_failed_is_not_saved_by_a_cut},
    {"a_release_that_rests_ends_without_an_answer",
     a_release_that_rests_ends_without_an_answer}};

int main(void) {
  return check_all(tests, sizeof tests / sizeof *tests);
}
