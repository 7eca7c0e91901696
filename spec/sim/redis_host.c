/* See redis_host.h. The link writes nothing: what is submitted waits until
 * the simulation takes it, and ends when the simulation says so. */
#include "redis_host.h"

#include <stdio.h>
#include <stdlib.h>

#include "store/redis/net.h"

int64_t sim_time;

void sim_die(const char *what) {
  fprintf(stderr, "redis_client: %s\n", what);
  abort();
}

/* ---- the host ---- */

static struct client *of(struct dlk_host *host) {
  return (struct client *)(void *)host;
}

static int64_t now(struct dlk_host *host) {
  (void)host;
  return sim_time;
}

static void random_bytes(struct dlk_host *host, void *out, size_t n) {
  uint64_t *x = &of(host)->random;
  for (size_t i = 0; i < n; i++) {
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    ((unsigned char *)out)[i] = (unsigned char)(*x >> 32);
  }
}

static void timer_set(struct dlk_host *host, struct dlk_timer *t, int64_t at) {
  dlk_heap_put(&of(host)->timers, &t->node, at);
}

static void timer_clear(struct dlk_host *host, struct dlk_timer *t) {
  dlk_heap_remove(&of(host)->timers, &t->node);
}

static void happened(struct client *c, const char *kind, int id,
                     enum dlk_code code, int64_t fence, int64_t sent) {
  if (c->event_count == EVENTS)
    sim_die("too many events");
  c->events[c->event_count++] =
      (struct happening){kind, id, code, fence, sent, 0, 0};
}

static void settle(struct client *c, struct thing *t) {
  if (!t->over || t->renewing || t->acquiring || t->releasing)
    return;
  c->things[t->id % THINGS] = NULL;
  free(t);
}

static struct thing *owner_of(struct client *c, const struct dlk_op *op,
                              const struct dlk_lease *lease) {
  for (size_t i = 0; i < THINGS; i++) {
    struct thing *t = c->things[i];
    if (t && (op == &t->acquire || op == &t->release || lease == &t->lease))
      return t;
  }
  sim_die("an unknown operation or lease");
  return NULL;
}

static void done(struct dlk_host *host, struct dlk_op *op,
                 const struct dlk_error *err) {
  struct client *c = of(host);
  struct thing *t = owner_of(c, op, NULL);
  bool first = op == &t->acquire;
  enum dlk_code code = err ? err->code : DLK_OK;
  if (!(first ? t->acquiring : t->releasing))
    sim_die("an operation ended twice");
  *(first ? &t->acquiring : &t->releasing) = false;
  happened(c, first ? "acquired" : "released", t->id, code, t->lease.fence,
           t->lease.sent);
  c->events[c->event_count - 1].claim = t->lease.claim;
  c->events[c->event_count - 1].spare = t->lease.spare;
  if (!first || code != DLK_OK)
    t->over = true;
  settle(c, t);
}

static void renewal(struct dlk_host *host, struct dlk_lease *lease,
                    const char *kind, int64_t sent) {
  struct client *c = of(host);
  struct thing *t = owner_of(c, NULL, lease);
  if (sent)
    lease->claim = 0;
  if (t->renewing)
    happened(c, kind, t->id, DLK_OK, 0, sent);
  t->renewing = false;
  settle(c, t);
}

static void renewed(struct dlk_host *host, struct dlk_lease *lease,
                    int64_t sent) {
  renewal(host, lease, "renewed", sent);
}

static void renew_failed(struct dlk_host *host, struct dlk_lease *lease) {
  renewal(host, lease, "failed", 0);
}

static void lost(struct dlk_host *host, struct dlk_lease *lease,
                 const char *why) {
  struct client *c = of(host);
  struct thing *t = owner_of(c, NULL, lease);
  (void)why;
  happened(c, "lost", t->id, DLK_LOST, 0, 0);
  t->renewing = false;
  settle(c, t);
}

static void revoked(struct dlk_host *host, struct dlk_lease *lease) {
  (void)host;
  (void)lease;
}

static void event(struct dlk_host *host, const char *kind, const char *text) {
  (void)host;
  (void)kind;
  (void)text;
}

static void busy(struct dlk_host *host, int delta) {
  (void)host;
  (void)delta;
}

static void stopped(struct dlk_host *host) {
  (void)host;
}

static const struct dlk_host functions = {
    .abi = DLK_STORE_ABI,
    .now = now,
    .random = random_bytes,
    .timer_set = timer_set,
    .timer_clear = timer_clear,
    .done = done,
    .renewed = renewed,
    .renew_failed = renew_failed,
    .lost = lost,
    .revoked = revoked,
    .event = event,
    .busy = busy,
    .stopped = stopped,
};

/* ---- the link ---- */

static struct client *linked(struct dlk_redis_link *link) {
  return DLK_CONTAINER(link, struct client, link);
}

static void link_submit(struct dlk_redis_link *link,
                        struct dlk_redis_req *req) {
  struct client *c = linked(link);
  if (c->request_count == REQUESTS)
    sim_die("too many requests");
  c->requests[c->request_count++] = (struct request){++c->last_id, req, false};
}

void sim_request_forget(struct client *c, size_t i) {
  memmove(c->requests + i, c->requests + i + 1,
          (--c->request_count - i) * sizeof c->requests[0]);
}

static bool link_withdraw(struct dlk_redis_link *link,
                          struct dlk_redis_req *req) {
  struct client *c = linked(link);
  for (size_t i = 0; i < c->request_count; i++) {
    if (c->requests[i].req != req || c->requests[i].written)
      continue;
    sim_request_forget(c, i);
    return true;
  }
  return false;
}

static void link_listen(struct dlk_redis_link *link) {
  linked(link)->wanted = true;
}

static void link_unlisten(struct dlk_redis_link *link) {
  linked(link)->wanted = false;
}

static void link_retreat(struct dlk_redis_link *link,
                         const struct dlk_error *why) {
  (void)link;
  (void)why;
}

static void link_end(struct dlk_redis_link *link) {
  (void)link;
}

struct dlk_redis_link *
dlk_redis_net_new(struct dlk_host *host, const struct dlk_conf *conf,
                  unsigned db, const char *prefix, const char *channel,
                  const struct dlk_redis_ears *ears, void *arg) {
  struct client *c = of(host);
  (void)conf;
  (void)db;
  (void)prefix;
  c->ears = ears;
  c->arg = arg;
  c->channel = channel;
  c->link = (struct dlk_redis_link){.submit = link_submit,
                                    .withdraw = link_withdraw,
                                    .listen = link_listen,
                                    .unlisten = link_unlisten,
                                    .retreat = link_retreat,
                                    .stop = link_end,
                                    .destroy = link_end};
  c->link.served = true;
  for (int i = 0; i < DLK_REDIS_SCRIPTS; i++)
    snprintf(c->link.sha[i], DLK_REDIS_SHA, "%040d", i);
  return &c->link;
}

void sim_request_lose(struct client *c, size_t at) {
  struct dlk_redis_req *req = c->requests[at].req;
  bool written = c->requests[at].written;
  struct dlk_error err;
  dlk_error_set(&err, DLK_UNAVAILABLE, "cut");
  sim_request_forget(c, at);
  struct dlk_redis_answer a = {
      .outcome = written ? DLK_REDIS_UNKNOWN : DLK_REDIS_UNSENT, .err = &err};
  req->done(req, &a);
}

void sim_client_init(struct client *c, uint64_t seed) {
  struct dlk_error err;
  static const struct dlk_addr addr = {"simulated", 6379};
  c->host = functions;
  c->random = seed * 2654435761u + 88172645463325252u;
  c->conf = (struct dlk_conf){.shown = "redis://simulated",
                              .scheme = "redis",
                              .hosts = &addr,
                              .host_count = 1,
                              .path = "",
                              .prefix = "",
                              .connect_timeout = 3 * DLK_SEC,
                              .io_timeout = 2 * DLK_SEC};
  if (dlk_redis_store.create(&c->host, &c->conf, &c->store, &err) != DLK_OK)
    sim_die(err.text);
}
