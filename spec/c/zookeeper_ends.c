/* The ends of a ZooKeeper session that come from our side, or that only we know
 * of, on a link that does as it is told: the servers pass on what was held in
 * it as soon as they hear of the close, so whoever holds has to be told before.
 * spec/zookeeper/units_spec.lua compiles and runs it. */
#include "check.h"
#include "zookeeper_user.h"

/* ---- ends ---- */

/* There was no memory for it, and nobody knows for which. */
static void misses_an_event(void) {
  fake_end(true, DLK_SS_END_FAILED);
}

static void misses_an_event_while_away(void) {
  fake_away();
  fake_end(false, DLK_SS_END_FAILED);
}

static void is_denied(void) {
  fake_end(true, DLK_SS_END_DENIED);
}

static void is_shortened(void) {
  fake_away();
  fake_connected(TIMEOUT / 2);
}

static void is_stopped(void) {
  h->type->stop(h->store);
}

/* ---- who holds ---- */

static int told;

static void is_told_while_it_is_there(struct host *host,
                                      struct dlk_lease *lease,
                                      const char *why) {
  (void)host;
  (void)why;
  CHECK(fake_links() == 1 && fake_has(lease->fence));
  told++;
}

static void tells_and_then_closes(void (*end)(void)) {
  start();
  struct dlk_lease *first = held("a"), *second = held("b");
  told = 0;
  h->on_lost = is_told_while_it_is_there;
  end();
  CHECK(told == 2);
  CHECK(fake_links() == 0 && fake_nodes("/dlock/a") == 0);
  free(first);
  free(second);
  host_close(h);
}

TEST(an_event_that_is_missed_ends_holds_at_once) {
  tells_and_then_closes(misses_an_event);
}

TEST(an_event_missed_while_away_ends_holds_at_once) {
  tells_and_then_closes(misses_an_event_while_away);
}

TEST(who_is_denied_tells_holds_and_then_closes) {
  tells_and_then_closes(is_denied);
}

TEST(who_is_shortened_tells_holds_and_then_closes) {
  tells_and_then_closes(is_shortened);
}

TEST(who_is_stopped_tells_holds_and_then_closes) {
  tells_and_then_closes(is_stopped);
}

/* ---- who does something when it is told ---- */

static struct dlk_lease *other, *next;
static struct dlk_op *release_of_other, *acquire_of_next;

/* The first one that is told gives the other up, and wants its own again. */
static void does_all_it_can(struct host *host, struct dlk_lease *lease,
                            const char *why) {
  (void)host;
  (void)why;
  if (told++ > 0)
    return;
  CHECK(lease != other);
  release_of_other = submit(DLK_OP_RELEASE, other, NULL);
  acquire_of_next = submit(DLK_OP_ACQUIRE, next, NULL);
  CHECK(fake_links() == 2);
}

/* Nothing new is begun in the session that is about to end. */
TEST(who_is_told_goes_on_in_another_session) {
  start();
  struct dlk_lease *first = held("k");
  other = held("other");
  next = candidate("k", 0);
  told = 0;
  h->on_lost = does_all_it_can;
  is_shortened();
  CHECK(told == 1 && fake_links() == 1 && fake_nodes(LOCK) == 0);
  CHECK(ended(release_of_other, DLK_LOST));
  fake_connected(TIMEOUT);
  gets_it(acquire_of_next, next);
  free(first);
  free(other);
  host_close(h);
}

/* ---- who waits ---- */

TEST(who_waits_goes_on_when_an_event_was_missed) {
  start();
  release(held("k"));
  fake_join(LOCK);
  struct dlk_lease *waiter = candidate("k", 0);
  struct dlk_op *wait = submit(DLK_OP_ACQUIRE, waiter, NULL);
  fake_serve();
  misses_an_event();
  CHECK(fake_nodes(LOCK) == 1 && fake_links() == 1);
  fake_connected(TIMEOUT);
  fake_serve();
  CHECK(fake_nodes(LOCK) == 2);
  host_cancel(h, wait, DLK_CANCELLED);
  fake_serve();
  CHECK(ended(wait, DLK_CANCELLED));
  free(waiter);
  host_close(h);
}

/* ---- a connection that is cut again and again ---- */

static void time_passes(int64_t ns) {
  h->stands_at += ns;
  host_turn(h, 0);
}

/* What is sent first on each connection has the server cut it, so a handshake
 * says nothing. The session would never end: it is touched each time. */
TEST(who_is_let_in_but_never_answered_is_given_up) {
  start();
  h->stands_at = h->host.now(&h->host);
  release(held("k"));
  fake_join(LOCK);
  struct dlk_lease *lease = held("mine"), *waiter = candidate("k", 0);
  struct dlk_op *wait = submit(DLK_OP_ACQUIRE, waiter, NULL);
  fake_serve();
  fake_drop();
  for (int i = 1; i < 8; i++) {
    time_passes(TIMEOUT / 4);
    fake_connected(TIMEOUT);
    fake_drop();
    CHECK(fake_nodes("/dlock/mine") == 1 && fake_nodes(LOCK) == 2);
  }
  CHECK(lost_why);
  time_passes(TIMEOUT / 4);
  CHECK(fake_nodes("/dlock/mine") == 0 && fake_nodes(LOCK) == 1);
  fake_connected(TIMEOUT);
  fake_serve();
  CHECK(fake_nodes(LOCK) == 2 && !host_over(wait));
  host_cancel(h, wait, DLK_CANCELLED);
  fake_serve();
  CHECK(ended(wait, DLK_CANCELLED));
  free(waiter);
  free(lease);
  host_close(h);
}

TEST(who_is_answered_again_goes_on) {
  start();
  h->stands_at = h->host.now(&h->host);
  struct dlk_lease *lease = held("mine");
  for (int i = 0; i < 8; i++) {
    fake_drop();
    time_passes(TIMEOUT / 16);
    fake_connected(TIMEOUT);
    for (int k = 0; k < 32; k++) {
      time_passes(TIMEOUT / 32);
      fake_serve();
    }
    CHECK(!lost_why && fake_has(lease->fence));
  }
  release(lease);
  host_close(h);
}

/* Nobody looked meanwhile. Who is still away when somebody looks, and has
 * nothing to lose, ends: a new one is there sooner. */
TEST(who_is_back_at_once_stays_though_nothing_is_held) {
  start();
  release(held("k"));
  fake_away();
  fake_connected(TIMEOUT);
  host_turn(h, 0);
  CHECK(fake_links() == 1);
  fake_away();
  host_turn(h, 0);
  CHECK(fake_links() == 0);
  host_close(h);
}

int main(void) {
  return check_all();
}
