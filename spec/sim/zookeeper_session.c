/* How long the ZooKeeper store believes in a session, against a leader that
 * counts as ZooKeeper's does (zookeeper_leader.h): random histories in which
 * connections break at any moment, servers are cut off from the leader, links
 * cannot be heard any more, and our process is stopped while the client library
 * goes on by itself.
 *
 * - When a session ends, at the leader or closed by us, nobody believes in a
 *   hold of it any more.
 * - Where every break is mended at once, no hold is ever lost. */
#include <stdlib.h>

#include "host.h"
#include "plain.h"
#include "store/zookeeper/zookeeper.h"
#include "zookeeper_leader.h"

static struct dlk_lease *lease;
static struct dlk_op *acquire, *release;
static bool held, gentle;
static int lost;

/* ---- our side ---- */

void sim_node_goes(int64_t czxid, const char *why) {
  int64_t now = sim_host->host.now(&sim_host->host);
  if (held && lease->fence == czxid && now < sim_host->horizon)
    sim_wrong("%s while its hold is believed in for %lld ms", why,
              (long long)((sim_host->horizon - now) / DLK_MS));
}

static void on_lost(struct host *host, struct dlk_lease *it, const char *why) {
  (void)host;
  (void)it;
  sim_say("lost: %s", why);
  if (gentle)
    sim_wrong("a hold was lost though every break was mended: %s", why);
  held = false;
  lost++;
}

static void collect(void) {
  if (acquire && host_over(acquire)) {
    held = host_error(acquire)->code == DLK_OK;
    sim_say("acquired: %d", held);
    host_op_free(acquire);
    acquire = NULL;
  }
  if (release && host_over(release)) {
    host_op_free(release);
    release = NULL;
  }
  if (!acquire && !release && !held) {
    free(lease);
    lease = NULL;
  }
}

static void act(void) {
  collect();
  if (!lease && sim_roll(3)) {
    lease = host_lease(sim_host, "k", 1, (struct dlk_want){0, 0}, "me");
    acquire = host_op(sim_host, DLK_OP_ACQUIRE, lease, NULL, 0);
    acquire->wait = true;
    host_submit(sim_host, acquire);
  } else if (held && !release && sim_roll(50) == 0) {
    held = false;
    release = host_op(sim_host, DLK_OP_RELEASE, lease, NULL, 0);
    host_submit(sim_host, release);
  }
}

/* ---- histories ---- */

/* Things get on, a bit. For a while one way is slow, or the process is stopped,
 * while the rest goes on. */
static void step(void) {
  static uint32_t slow, left;
  void (*const move[])(struct dlk_zk_link *) = {sim_serve, sim_lead, sim_follow,
                                                sim_hear};
  if (left-- == 0) {
    slow = sim_roll(8);
    left = sim_roll(12);
  }
  bool stopped = slow == 3;
  sim_pass(sim_roll(1000) * TIMEOUT / (sim_roll(4) ? 16000 : 8000));
  for (uint32_t k = sim_roll(24); k > 0; k--) {
    struct dlk_zk_link *l = sim_links[sim_roll(8) == 0];
    uint32_t which = sim_roll(4);
    if (l && which != slow)
      move[which](l);
  }
  if (sim_roll(20) == 0 && sim_links[0])
    sim_lose(sim_links[0]);
  if (sim_roll(2) && sim_links[0])
    sim_attach(sim_links[0]);
  if (!stopped && sim_roll(100) == 0 && sim_links[0])
    sim_deafen(sim_links[0]);
  if (!stopped)
    host_turn(sim_host, 0);
  act();
}

/* The library loses the connection and has another, and we hear of that only
 * after we went on. */
static void gap(void) {
  struct dlk_zk_link *l = sim_links[0];
  if (!l)
    return;
  sim_lose(l);
  sim_attach(l);
  sim_lead(l);
  sim_follow(l);
  sim_pass(sim_roll(1000) * TIMEOUT / 4000);
  host_turn(sim_host, 0);
  sim_pass(sim_roll(1000) * TIMEOUT / 40000);
  sim_settle();
}

/* From now on the leader hears nothing, until every session is over. */
static void cut_off(void) {
  sim_say("the leader hears nothing more");
  sim_isolate();
  for (int i = 0; i < 12; i++) {
    sim_pass(TIMEOUT / 10);
    for (size_t n = 0; n < SIM_LINKS; n++)
      for (int k = 0; k < 4 && sim_links[n]; k++) {
        sim_serve(sim_links[n]);
        sim_hear(sim_links[n]);
      }
    if (sim_roll(2))
      host_turn(sim_host, 0);
    collect();
  }
  sim_mend();
}

static void hostile(void) {
  for (int round = 0; round < 6; round++) {
    for (int i = 0; i < 20 && !held; i++) {
      sim_mend();
      sim_settle();
      sim_pass(TIMEOUT / 100);
      act();
    }
    for (uint32_t k = sim_roll(30); k > 0; k--)
      step();
    if (sim_roll(2) == 0)
      gap();
    cut_off();
    sim_settle();
  }
}

/* A break about every tenth of the timeout, at any moment of it. */
static void gentle_step(void) {
  sim_pass(sim_roll(1000) * TIMEOUT / 20000);
  for (uint32_t k = sim_roll(6); k > 0; k--) {
    void (*const move[])(struct dlk_zk_link *) = {sim_serve, sim_lead,
                                                  sim_follow, sim_hear};
    if (sim_links[0])
      move[sim_roll(4)](sim_links[0]);
  }
  host_turn(sim_host, 0);
  if (sim_roll(2) && sim_links[0])
    sim_lose(sim_links[0]);
  sim_settle();
  act();
}

static void history(uint64_t seed) {
  static const struct dlk_addr at = {"server", 0};
  const struct dlk_option timeout = {.name = "session_timeout",
                                     .number = (double)TIMEOUT / DLK_SEC};
  const struct dlk_conf conf = {.shown = "zookeeper://server",
                                .scheme = "zookeeper",
                                .hosts = &at,
                                .host_count = 1,
                                .path = "",
                                .options = {&timeout, 1},
                                .connect_timeout = 3 * DLK_SEC,
                                .io_timeout = 2 * DLK_SEC};
  gentle = sim_sound = seed % 4 == 0;
  held = false;
  sim_host = host_open(&dlk_zookeeper_store, &conf, NULL);
  sim_host->on_lost = on_lost;
  for (int i = 0; i < 120 && gentle; i++)
    gentle_step();
  if (!gentle)
    hostile();
  gentle = sim_sound = false;
  if (held)
    release = host_op(sim_host, DLK_OP_RELEASE, lease, NULL, 0);
  held = false;
  if (release && release->started == 0)
    host_submit(sim_host, release);
  for (int i = 0; i < 400 && (acquire || release); i++) {
    sim_mend();
    sim_settle();
    if (acquire)
      host_cancel(sim_host, acquire, DLK_CANCELLED);
    sim_pass(TIMEOUT / 40);
    collect();
    held = false;
  }
  if (acquire || release)
    sim_wrong("something never ends");
  host_close(sim_host);
  free(lease);
  lease = NULL;
}

int main(int argc, char **argv) {
  int status = sim_main(argc, argv, history);
  sim_say("%d holds were lost", lost);
  return status;
}
