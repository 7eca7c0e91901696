/* The recipe of stores with sessions in random histories: acquires, releases,
 * cancels, renewals and looks of one store cross with requests that are
 * executed one by one, connections that break before or after that, sessions
 * that expire or cannot be heard any more, and time that passes. The server is
 * spec/c/zookeeper_link.c or, with SIM_ETCD or SIM_CONSUL, spec/c/etcd_server.c
 * or consul_server.c.
 *
 * - No two hold what excludes each other (where nobody breaks locks).
 * - What an exclusive hold has a min_hold for nobody else gets before its end,
 *   whatever becomes of its session; nobody gets exclusively what a shared one
 *   keeps (where nobody breaks locks).
 * - No release of a hold whose node was gone says that it was ours, unless an
 *   answer was lost (it may have been the one to our own delete).
 * - No extension of a hold whose node was gone is done.
 * - Each renewal is answered once, each operation ends once.
 * - When the trouble is over everything ends, no node is left on the server
 *   once each lock was asked for again (a min_hold may leave one), and the
 * store does not say that it is busy. */
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "plain.h"
#if defined(SIM_CONSUL)
#include "fake_servers.h"
#include "store/session/consul/consul.h"
#define STORE dlk_consul_store
#define SCHEME "consul"
#define CUTS_AGAIN true /* behind a late epoch, which loses answers as well */
#define FREED 100 /* a dead session's locks are kept for once more its time */
#elif defined(SIM_ETCD)
#include "fake_servers.h"
#include "store/session/etcd/etcd.h"
#define STORE dlk_etcd_store
#define SCHEME "etcd"
#else
#include "store/zookeeper/zookeeper.h"
#include "zookeeper_link.h"
#define STORE dlk_zookeeper_store
#define SCHEME "zookeeper"
#endif
#ifndef CUTS_AGAIN
#define CUTS_AGAIN false
#endif
#ifndef FREED
#define FREED 20 /* turns until what the dead held is free */
#endif

#define TIMEOUT (8 * DLK_SEC)
#define ONES 14
#define ASKS 8
#define STEPS 150
#define ROUNDS 400
#define LIMIT 5

/* One acquisition, to the end of its release. */
struct one {
  struct dlk_lease *lease;
  struct dlk_op *acquire, *release, *extend;
  bool held, lost, released, renewing;
  bool gone;   /* its node was, when it was released, and no answer was lost */
  bool broken; /* its node was gone when it was extended */
  unsigned key;
};

static const char *const keys[] = {"a", "b"};
static struct host *h;
static struct one ones[ONES];
static struct dlk_op *asks[ASKS];
static bool breaks, permits; /* permits: b is a semaphore */
static bool troubled;        /* a connection broke in this history */
/* Until when a min_hold keeps each key, at least: for itself, or shared. */
static int64_t kept_alone[2], kept_shared[2];

/* ---- what the store tells ---- */

static struct one *one_of(const struct dlk_lease *lease) {
  for (size_t i = 0; i < ONES; i++)
    if (ones[i].lease == lease)
      return &ones[i];
  sim_wrong("a lease that was given up is named");
}

static void on_renewed(struct host *host, struct dlk_lease *lease, bool ok) {
  struct one *o = one_of(lease);
  (void)host;
  (void)ok;
  if (!o->renewing)
    sim_wrong("a renewal is answered that was not asked for");
  o->renewing = false;
}

static void on_lost(struct host *host, struct dlk_lease *lease,
                    const char *why) {
  struct one *o = one_of(lease);
  (void)host;
  sim_say("#%d is lost: %s", (int)(o - ones), why);
  o->lost = true;
  o->renewing = false;
}

static bool over(struct dlk_op **op, const char *what, int i) {
  if (!*op || !host_over(*op))
    return false;
  sim_say("%s #%d: %s", what, i,
          host_error(*op)->code ? host_error(*op)->text : "ok");
  return true;
}

static void drop(struct dlk_op **op) {
  host_op_free(*op);
  *op = NULL;
}

/* The grant was not before its list was sent. */
static void granted(const struct one *o) {
  const struct dlk_lease *l = o->lease;
  int64_t now = h->host.now(&h->host), *alone = &kept_alone[o->key];
  int64_t *shared = &kept_shared[o->key];
  if (!breaks && (now < *alone || (l->want.units == 0 && now < *shared)))
    sim_wrong("#%d has %s, which a min_hold keeps", (int)(o - ones),
              keys[o->key]);
  int64_t *own = l->want.units == 0 ? alone : shared;
  if (l->min_hold > 0 && *own < l->sent + l->min_hold)
    *own = l->sent + l->min_hold;
}

static void collect(struct one *o) {
  int i = (int)(o - ones);
  if (over(&o->acquire, "acquire", i)) {
    o->held = host_error(o->acquire)->code == DLK_OK;
    if (o->held)
      granted(o);
    o->released = !o->held;
    drop(&o->acquire);
  }
  if (over(&o->extend, "extend", i)) {
    if (o->broken && host_error(o->extend)->code == DLK_OK)
      sim_wrong("#%d is extended: it was broken before", i);
    drop(&o->extend);
  }
  if (over(&o->release, "release", i)) {
    if (o->gone && host_error(o->release)->code == DLK_OK)
      sim_wrong("the release of #%d says that it was ours: it was broken", i);
    o->released = true;
    drop(&o->release);
  }
  bool ended = o->released || (o->lost && !o->release);
  if (!ended || o->acquire || o->extend || o->renewing)
    return;
  free(o->lease);
  memset(o, 0, sizeof *o);
}

static bool ours(const struct one *o) {
  return o->held && !o->lost && !o->release && !o->released;
}

static void look(void) {
  unsigned all[2] = {0}, exclusive[2] = {0}, units = 0;
  for (size_t i = 0; i < ONES; i++)
    if (ones[i].lease)
      collect(&ones[i]);
  for (int i = 0; i < ASKS; i++)
    if (over(&asks[i], "ask", i))
      drop(&asks[i]);
  for (size_t i = 0; i < ONES; i++) {
    all[ones[i].key] += ours(&ones[i]);
    exclusive[ones[i].key] += ours(&ones[i]) && ones[i].lease->want.units == 0;
    units += ours(&ones[i]) && ones[i].key == 1 ? ones[i].lease->want.units : 0;
  }
  if (permits && !breaks && units > LIMIT)
    sim_wrong("%u permits of %d are held", units, LIMIT);
  for (int k = 0; k < 2 && !breaks; k++)
    if (exclusive[k] > 0 && all[k] > 1)
      sim_wrong("%u hold %s, %u of them exclusively", all[k], keys[k],
                exclusive[k]);
}

/* ---- what happens ---- */

static void acquire(struct one *o) {
  if (o->lease)
    return;
  o->key = sim_roll(2);
  struct dlk_want want = {sim_roll(2), 0};
  if (permits && o->key == 1)
    want = (struct dlk_want){1 + sim_roll(2), LIMIT};
  o->lease = host_lease(h, keys[o->key], 1, want, "me");
  if (sim_roll(8) == 0)
    o->lease->min_hold = (100 + sim_roll(2000)) * DLK_MS;
  o->acquire = host_op(h, DLK_OP_ACQUIRE, o->lease, NULL, 0);
  o->acquire->wait = sim_roll(5) != 0;
  sim_say("#%d acquires %s, units %u, waits %d", (int)(o - ones), keys[o->key],
          o->lease->want.units, o->acquire->wait);
  host_submit(h, o->acquire);
}

static void release(struct one *o) {
  if (!ours(o))
    return;
  o->gone = !fake_has(o->lease->fence) && !(CUTS_AGAIN && troubled);
  sim_say("#%d releases, its node is gone %d", (int)(o - ones), o->gone);
  o->release = host_op(h, DLK_OP_RELEASE, o->lease, NULL, 0);
  host_submit(h, o->release);
}

static void cancel(struct one *o) {
  if (!o->acquire)
    return;
  sim_say("#%d gives up", (int)(o - ones));
  host_cancel(h, o->acquire, sim_roll(2) ? DLK_CANCELLED : DLK_TIMEOUT);
}

static void renew(struct one *o) {
  if (!ours(o) || o->renewing)
    return;
  sim_say("#%d is renewed", (int)(o - ones));
  o->renewing = true;
  h->type->renew(h->store, &o->lease, 1);
}

static void extend(struct one *o) {
  if (!ours(o) || o->extend)
    return;
  o->broken = !fake_has(o->lease->fence);
  sim_say("#%d is extended, its node is gone %d", (int)(o - ones), o->broken);
  o->extend = host_op(h, DLK_OP_EXTEND, o->lease, NULL, 0);
  host_submit(h, o->extend);
}

static void ask(struct dlk_op **op) {
  static const enum dlk_op_kind kinds[] = {DLK_OP_INSPECT, DLK_OP_LOCKED,
                                           DLK_OP_REVOKE,  DLK_OP_PING,
                                           DLK_OP_LIST,    DLK_OP_BREAK};
  if (*op)
    return;
  enum dlk_op_kind kind = kinds[sim_roll(breaks ? 6 : 5)];
  bool all = kind == DLK_OP_LIST;
  sim_say("an ask of kind %d", (int)kind);
  *op = host_op(h, kind, NULL, all ? "" : keys[sim_roll(2)], all ? 0 : 1);
  (*op)->names = sim_roll(2);
  host_submit(h, *op);
}

static void trouble(void) {
  uint32_t how = sim_roll(9);
  sim_say("trouble %u", how);
  troubled = true;
  for (size_t i = 0; i < ONES; i++)
    ones[i].gone = false;
  if (how < 2)
    fake_cut();
  else if (how < 4)
    fake_drop();
  else if (how < 7)
    fake_away(); /* what is sent now is kept for the next connection */
  else if (how < 8)
    fake_expire();
  else
    fake_end(sim_roll(2), DLK_SS_END_FAILED);
  if (how == 4 || how == 5)
    fake_connected(TIMEOUT);
}

static void pass(int64_t ns) {
  h->skew += ns;
  host_turn(h, 0);
  host_turn(h, 0);
}

static void step(void) {
  struct one *o = &ones[sim_roll(ONES)];
  uint32_t what = sim_roll(24);
  if (what < 6)
    acquire(o);
  else if (what < 10)
    release(o);
  else if (what < 11)
    cancel(o);
  else if (what < 14)
    for (uint32_t n = 1 + sim_roll(3); n > 0; n--)
      fake_step();
  else if (what < 17)
    fake_serve();
  else if (what < 18)
    trouble();
  else if (what < 20)
    fake_connected(TIMEOUT);
  else if (what < 22)
    pass(sim_roll(1000) * DLK_MS);
  else if (what < 23)
    (sim_roll(2) ? renew : extend)(o);
  else
    ask(&asks[sim_roll(ASKS)]);
  look();
}

static bool anything_left(void) {
  for (size_t i = 0; i < ONES; i++)
    if (ones[i].lease)
      return true;
  for (size_t i = 0; i < ASKS; i++)
    if (asks[i])
      return true;
  return false;
}

static void rest(int turns) {
  for (int i = 0; i < turns; i++) {
    fake_connected(TIMEOUT);
    fake_serve();
    pass(200 * DLK_MS);
  }
}

/* Whoever comes next deletes what a min_hold left. */
static void once_more(unsigned key) {
  struct one *o = &ones[0];
  o->key = key;
  o->lease = host_lease(h, keys[key], 1, (struct dlk_want){0, 0}, "me");
  o->acquire = host_op(h, DLK_OP_ACQUIRE, o->lease, NULL, 0);
  o->acquire->wait = true;
  host_submit(h, o->acquire);
  rest(FREED);
  look();
  if (!ours(o))
    sim_wrong("%s is not free in the end", keys[key]);
  release(o);
  rest(20);
  look();
}

/* A hold that was broken is heard of at its renewal. */
static void calm(void) {
  sim_say("no more trouble");
  for (int round = 0; round < ROUNDS && anything_left(); round++) {
    fake_connected(TIMEOUT);
    fake_serve();
    pass(200 * DLK_MS);
    look();
    for (size_t i = 0; i < ONES; i++) {
      if (ones[i].renewing)
        sim_wrong("a renewal is not answered");
      (round % 2 ? release : renew)(&ones[i]);
    }
  }
  if (anything_left())
    sim_wrong("something never ends");
  rest(20);
  for (unsigned k = 0; k < 2; k++)
    once_more(k);
  rest(20);
  if (fake_nodes("/dlock/a") + fake_nodes("/dlock/b") > 0)
    sim_wrong("a node is left");
  if (h->busy != 0)
    sim_wrong("the store is busy with something");
}

static void history(uint64_t seed) {
  static const struct dlk_addr at = {"server", 0};
  const struct dlk_option timeout = {.name = "session_timeout",
                                     .number = (double)TIMEOUT / DLK_SEC};
  const struct dlk_conf conf = {.shown = SCHEME "://server",
                                .scheme = SCHEME,
                                .hosts = &at,
                                .host_count = 1,
                                .path = "",
                                .options = {&timeout, 1},
                                .connect_timeout = 3 * DLK_SEC,
                                .io_timeout = 2 * DLK_SEC};
  memset(kept_alone, 0, sizeof kept_alone);
  memset(kept_shared, 0, sizeof kept_shared);
  troubled = false;
  breaks = seed % 3 == 0;
  permits = seed % 2 == 0;
  fake_reset();
  h = host_open(&STORE, &conf, NULL);
  h->on_renewed = on_renewed;
  h->on_lost = on_lost;
  for (int i = 0; i < STEPS; i++)
    step();
  calm();
  fake_away(); /* or closing waits for an answer */
  host_close(h);
}

int main(int argc, char **argv) {
  return sim_main(argc, argv, history);
}
