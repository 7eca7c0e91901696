/* See redis_host.h. */
#include "redis_host.h"

#include <stdlib.h>

void sim_complain(const char *what) {
  if (!sim_running->complaint)
    sim_running->complaint = what;
}

static void put(struct bag *b, const void *what) {
  if (b->count == BAG)
    sim_die("too much is under way");
  b->at[b->count++] = what;
}

static bool take(struct bag *b, const void *what) {
  for (size_t i = 0; i < b->count; i++) {
    if (b->at[i] != what)
      continue;
    b->at[i] = b->at[--b->count];
    return true;
  }
  return false;
}

/* ---- what the engine asks of the store ---- */

/* Whether a detach of the lease is under way, or (any) whatever else. */
static bool is_asked(const struct dlk_lease *lease, bool any) {
  const struct bag *b = &sim_running->ops;
  for (size_t i = 0; lease && i < b->count; i++) {
    const struct dlk_op *op = b->at[i];
    if (op->lease == lease && (any || op->kind == DLK_OP_DETACH))
      return true;
  }
  return false;
}

static void submit(void *store, struct dlk_op *op) {
  bool detach = op->kind == DLK_OP_DETACH;
  if (op->kind != DLK_OP_RELEASE && is_asked(op->lease, detach))
    sim_complain("a lease is detached, and something else is asked of it");
  put(&sim_running->ops, op);
  dlk_redis_store.submit(store, op);
}

static void renew(void *store, struct dlk_lease *const *leases, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (take(&sim_running->renewals, leases[i]))
      sim_complain("a lease is renewed while it is being renewed");
    if (is_asked(leases[i], false))
      sim_complain("a lease is renewed while it is being detached");
    put(&sim_running->renewals, leases[i]);
  }
  dlk_redis_store.renew(store, leases, count);
}

/* ---- what the store tells the engine ---- */

/* Messages for its token find nobody. What is not so is made so: the lease's
 * memory goes. */
static void forgotten(const struct dlk_lease *lease) {
  struct dlk_redis_hold *h = lease->data;
  if (!h->token.node.queued)
    return;
  sim_complain("a lease that is over is still listened for");
  struct dlk_redis *s = sim_store(sim_running);
  dlk_redis_token_drop(&s->tokens, &h->token);
}

static bool ends_lease(const struct dlk_op *op, enum dlk_code code) {
  bool good = code == DLK_OK;
  if (op->lease && code == DLK_LOST)
    return true;
  switch (op->kind) {
  case DLK_OP_ACQUIRE:
  case DLK_OP_ATTACH:
    return !good;
  case DLK_OP_DETACH:
    return good;
  default:
    return op->kind == DLK_OP_RELEASE;
  }
}

static void done(struct dlk_host *host, struct dlk_op *op,
                 const struct dlk_error *err) {
  if (!take(&sim_running->ops, op)) {
    sim_complain("an operation ended twice");
    return;
  }
  if (ends_lease(op, err ? err->code : DLK_OK))
    forgotten(op->lease);
  dlk_request_done(host, op, err);
}

static bool was_renewing(struct dlk_lease *lease) {
  if (take(&sim_running->renewals, lease))
    return true;
  sim_complain("a renewal is answered twice");
  return false;
}

static void renewed(struct dlk_host *host, struct dlk_lease *lease,
                    int64_t sent) {
  if (was_renewing(lease))
    dlk_hold_renewed(host, lease, sent);
}

static void renew_failed(struct dlk_host *host, struct dlk_lease *lease) {
  if (was_renewing(lease))
    dlk_hold_renew_failed(host, lease);
}

static void lost(struct dlk_host *host, struct dlk_lease *lease,
                 const char *why) {
  if (((struct dlk_redis_hold *)lease->data)->call.busy) {
    sim_complain("a lease is lost whose renewal will be answered");
    return;
  }
  (void)take(&sim_running->renewals, lease);
  forgotten(lease);
  dlk_hold_lost(host, lease, why);
}

/* ---- messages ---- */

/* One that says `broken`, to a lease that is held. */
static struct dlk_hold *named(struct client *c, const char *text, size_t len) {
  if (len < 3 || text[0] != 'b')
    return NULL;
  struct dlk_redis *s = sim_store(c);
  struct dlk_redis_token *t =
      dlk_redis_token_find(&s->tokens, text + 2, len - 2);
  struct dlk_redis_hold *h = t ? dlk_redis_hold_by(t) : NULL;
  return h && !h->waiting ? (struct dlk_hold *)(void *)h->lease : NULL;
}

/* Who heard that it was broken lets go at once, or when the renewal that is
 * under way has been answered. */
void sim_client_look(struct client *c) {
  size_t kept = 0;
  for (size_t i = 0; i < c->broken_count; i++) {
    struct dlk_hold *h = c->broken[i];
    bool held = dlk_hold_is_held(h);
    if (held && h->renewing) {
      c->broken[kept++] = h;
      continue;
    }
    if (held)
      sim_complain("a lease that was broken is held on, and it was told");
    dlk_hold_unref(h);
  }
  c->broken_count = kept;
}

void sim_client_hear(struct client *c, const struct still_link *by,
                     const char *text, size_t len) {
  struct dlk_hold *h = named(c, text, len);
  if (h && c->broken_count < BAG) {
    dlk_hold_ref(h);
    c->broken[c->broken_count++] = h;
  }
  by->events->message(by->arg, text, len);
}

/* ---- life ---- */

static const struct dlk_store_type *watched(void) {
  static struct dlk_store_type type;
  type = dlk_redis_store;
  type.submit = submit;
  type.renew = renew;
  return &type;
}

struct dlk_redis *sim_store(const struct client *c) {
  return c->engine->store;
}

void sim_client_init(struct client *c, uint64_t seed, bool resident,
                     bool routed) {
  struct dlk_error err;
  static const struct dlk_addr one = {"simulated", 6379};
  static const struct dlk_addr nodes[] = {
      {"s1", 6379}, {"s2", 6379}, {"s3", 6379}};
  /* Some processes count on replicas. */
  const struct dlk_option waits = {.name = "wait_replicas",
                                   .number = seed % 3 == 1};
  const struct dlk_conf conf = {.shown = "redis://simulated",
                                .options = {&waits, 1},
                                .scheme = routed ? "redis+cluster" : "redis",
                                .hosts = routed ? nodes : &one,
                                .host_count = routed ? 3 : 1,
                                .path = "",
                                .prefix = "",
                                .connect_timeout = 3 * DLK_SEC,
                                .io_timeout = 2 * DLK_SEC};
  c->random = seed * 2654435761u + 88172645463325252u;
  sim_running = c;
  c->routed = routed;
  c->engine = dlk_engine_new(watched(), &conf, "me", &err);
  if (!c->engine)
    sim_die(err.text);
  if (routed)
    sim_router_watch(c);
  c->engine->host.done = done;
  c->engine->host.renewed = renewed;
  c->engine->host.renew_failed = renew_failed;
  c->engine->host.lost = lost;
  if (resident)
    dlk_engine_resident(c->engine);
}

static bool is_asked_for(const struct client *c) {
  for (int i = 0; i < c->link_count; i++) {
    const struct server_link *l = c->links[i];
    if (l && (l->still.count > 0 || still_waiting(&l->still) > 0))
      return true;
  }
  return false;
}

bool sim_client_quiet(struct client *c) {
  return !is_asked_for(c) && !sim_router_works(c) &&
         sim_store(c)->orphan_count == 0;
}

const char *sim_client_left(struct client *c) {
  const struct dlk_engine *e = c->engine;
  const struct dlk_redis *s = sim_store(c);
  if (!dlk_engine_used(e))
    return NULL;
  if (c->ops.count > 0 || !dlk_list_empty(&e->work.ops))
    return "an operation that never ended";
  if (c->renewals.count > 0 || e->loop.work > e->work.busy)
    return "a renewal that was never answered";
  if (!dlk_list_empty(&e->held.list))
    return "a lease that is held";
  if (s->tokens.map.count > 0)
    return "a token that is listened for";
  if (!dlk_list_empty(&s->waits) || !dlk_list_empty(&s->watches))
    return "a wait";
  if (s->orphan_count > 0 || e->work.busy > 0 || is_asked_for(c) ||
      sim_router_works(c))
    return "something to take back";
  return dlk_list_empty(&e->local->all) ? NULL : "a queue of its own";
}

/* Closes the store within no time at all, which gives the memory back. */
static void close_at_once(struct client *c) {
  struct dlk_error err;
  const struct dlk_request r = {.task = DLK_TASK_CLOSE, .timeout = 0};
  struct dlk_ticket *t = dlk_engine_submit(c->engine, &r, true, &err);
  int64_t then = sim_time;
  for (int i = 0; t && !dlk_ticket_done(t) && i < 10; i++) {
    sim_enter(c);
    sim_leave(c);
    sim_time += DLK_SEC;
  }
  sim_time = then;
  if (t)
    dlk_ticket_unref(t);
}

bool sim_client_end(struct client *c) {
  sim_running = c;
  for (size_t i = 0; i < c->broken_count; i++)
    dlk_hold_unref(c->broken[i]);
  c->broken_count = 0;
  for (size_t i = 0; i < THINGS; i++) {
    struct thing *t = c->things[i];
    if (t && t->ticket)
      dlk_ticket_unref(t->ticket);
    if (t && t->hold)
      dlk_hold_unref(t->hold);
    free(t);
  }
  if (dlk_engine_used(c->engine))
    close_at_once(c);
  dlk_engine_join(c->engine);
  bool last = atomic_load(&c->engine->refs) == 1;
  dlk_engine_unref(c->engine);
  return last;
}
