/* See redis_world.h. */
#include "redis_world.h"

#include "store/redis/conn/cluster.h"
#include "store/redis/conn/net.h"

struct world w;

/* ---- the host ---- */

static int64_t host_now(struct dlk_host *host) {
  (void)host;
  return w.now;
}

static void host_random(struct dlk_host *host, void *out, size_t n) {
  (void)host;
  for (unsigned char *p = out; n-- > 0; p++) {
    w.random = w.random * UINT64_C(6364136223846793005) + 1442695040888963407;
    *p = (unsigned char)(w.random >> 56);
  }
}

static void timer_set(struct dlk_host *host, struct dlk_timer *t, int64_t at) {
  (void)host;
  dlk_heap_put(&w.timers, &t->node, at);
}

static void timer_clear(struct dlk_host *host, struct dlk_timer *t) {
  (void)host;
  dlk_heap_remove(&w.timers, &t->node);
}

static void granted(struct slot *s) {
  MUST(s->lease.sent <= w.now && s->lease.fence > 0 && s->lease.key_len > 0);
  s->held = true;
}

static void end_of(struct asked *a, bool ok) {
  struct slot *s = a->slot;
  if (s == NULL)
    return;
  s->op = NULL;
  bool begins = a->op.kind == DLK_OP_ACQUIRE || a->op.kind == DLK_OP_ATTACH;
  if (begins && ok)
    granted(s);
  else if (a->op.kind == DLK_OP_RELEASE || (a->op.kind == DLK_OP_DETACH && ok))
    s->held = false;
}

static void host_done(struct dlk_host *host, struct dlk_op *op,
                      const struct dlk_error *err) {
  struct asked *a = (struct asked *)(void *)op;
  (void)host;
  MUST(!a->over && (err == NULL || err->code != DLK_OK));
  a->over = true;
  w.open--;
  end_of(a, err == NULL);
  if (err && err->code == DLK_LOST && a->slot)
    a->slot->held = false;
  const struct dlk_value *v = op->result;
  if (op->kind == DLK_OP_DETACH && err == NULL && v &&
      v->u.string.len <= sizeof w.detached) {
    memcpy(w.detached, v->u.string.data, v->u.string.len);
    w.detached_len = v->u.string.len;
  }
  dlk_value_free(op->result);
  op->result = NULL;
}

static void answer_renewal(struct dlk_lease *lease, bool held) {
  struct slot *s = (struct slot *)(void *)lease;
  MUST(s->renewing);
  s->renewing = false;
  s->held = s->held && held;
}

static void renewed(struct dlk_host *h, struct dlk_lease *l, int64_t sent) {
  (void)h;
  MUST(sent <= w.now);
  l->sent = sent;
  answer_renewal(l, true);
}

static void renew_failed(struct dlk_host *host, struct dlk_lease *lease) {
  (void)host;
  answer_renewal(lease, true);
}

/* Also at any time. */
static void lost(struct dlk_host *host, struct dlk_lease *l, const char *why) {
  struct slot *s = (struct slot *)(void *)l;
  (void)host;
  MUST(why != NULL);
  s->renewing = s->held = false;
}

static void revoked(struct dlk_host *host, struct dlk_lease *lease) {
  (void)host;
  MUST(lease != NULL);
}

static void event(struct dlk_host *host, const char *kind, const char *text) {
  (void)host;
  MUST(kind != NULL && text != NULL);
}

static void busy(struct dlk_host *host, int delta) {
  (void)host;
  w.busy += delta;
  MUST(w.busy >= 0);
}

static void stopped(struct dlk_host *host) {
  (void)host;
  MUST(!w.stopped);
  w.stopped = true;
}

/* ---- the link ---- */

static void link_submit(struct dlk_redis_link *l, struct dlk_redis_req *req) {
  (void)l;
  MUST(w.request_count < REQUESTS);
  w.requests[w.request_count++] = req;
}

struct dlk_redis_req *world_take(size_t i) {
  struct dlk_redis_req *req = w.requests[i];
  memmove(w.requests + i, w.requests + i + 1,
          (--w.request_count - i) * sizeof w.requests[0]);
  w.written -= i < w.written;
  return req;
}

static bool link_withdraw(struct dlk_redis_link *l, struct dlk_redis_req *req) {
  (void)l;
  for (size_t i = w.written; i < w.request_count; i++)
    if (w.requests[i] == req)
      return world_take(i) != NULL;
  return false;
}

static void link_subscribe(struct dlk_redis_link *link, int slot) {
  (void)link;
  MUST(slot >= 0 && slot < (int)DLK_REDIS_SLOTS);
  w.wanted = slot;
}

static bool link_subscribed(struct dlk_redis_link *link, int slot) {
  (void)link;
  if (slot == DLK_REDIS_ANY_SLOT)
    return w.subscribed || w.only != DLK_REDIS_ANY_SLOT;
  return w.subscribed || w.only == slot;
}

static void link_nothing(struct dlk_redis_link *link) {
  (void)link;
}

/* Those that are there now; what is submitted meanwhile stays. */
void world_lose(enum dlk_code code) {
  struct dlk_error err;
  dlk_error_set(&err, code, "cut");
  for (size_t n = w.request_count; n > 0 && w.request_count > 0; n--) {
    struct dlk_redis_answer a = {.outcome = w.written > 0 ? DLK_REDIS_UNKNOWN
                                                          : DLK_REDIS_UNSENT,
                                 .err = &err};
    struct dlk_redis_req *req = world_take(0);
    req->done(req, &a);
  }
}

static void link_retreat(struct dlk_redis_link *l, const struct dlk_error *e) {
  (void)l;
  MUST(e->code != DLK_OK);
}

static void link_stop(struct dlk_redis_link *link) {
  (void)link;
  w.subscribed = false;
  w.only = DLK_REDIS_ANY_SLOT;
  while (w.request_count > 0)
    world_lose(DLK_CLOSED);
  w.events->stopped(w.store);
}

struct dlk_redis_link *
dlk_redis_net_new(struct dlk_host *host, const struct dlk_conf *conf,
                  struct dlk_net_endpoint *endpoint,
                  const struct dlk_redis_settings *settings,
                  const char *channel,
                  const struct dlk_redis_link_events *events, void *arg) {
  (void)host, (void)conf, (void)endpoint, (void)settings, (void)channel;
  w.events = events;
  w.store = arg;
  w.link = (struct dlk_redis_link){.submit = link_submit,
                                   .withdraw = link_withdraw,
                                   .subscribe = link_subscribe,
                                   .subscribed = link_subscribed,
                                   .unsubscribe = link_nothing,
                                   .retreat = link_retreat,
                                   .stop = link_stop,
                                   .destroy = link_nothing,
                                   .served = true,
                                   .connections = 1};
  return &w.link;
}

/* The world has one server. */
struct dlk_redis_link *dlk_redis_cluster_new(
    struct dlk_host *host, const struct dlk_conf *conf, struct dlk_net_tls *tls,
    const struct dlk_redis_settings *settings, const char *channel,
    const struct dlk_redis_link_events *events, void *arg) {
  (void)host;
  (void)conf;
  (void)tls;
  (void)settings;
  (void)channel;
  (void)events;
  (void)arg;
  return NULL;
}

void world_begin(void) {
  static const struct dlk_addr here = {"here", 6379};
  static const struct dlk_conf conf = {.shown = "redis://here",
                                       .scheme = "redis",
                                       .path = "",
                                       .prefix = "dlock:",
                                       .hosts = &here,
                                       .host_count = 1,
                                       .io_timeout = DLK_SEC,
                                       .connect_timeout = DLK_SEC};
  struct dlk_error err;
  memset(&w, 0, sizeof w);
  w.wanted = w.only = DLK_REDIS_ANY_SLOT;
  w.now = 1000 * DLK_SEC;
  w.host = (struct dlk_host){.abi = DLK_STORE_ABI,
                             .now = host_now,
                             .random = host_random,
                             .timer_set = timer_set,
                             .timer_clear = timer_clear,
                             .done = host_done,
                             .renewed = renewed,
                             .renew_failed = renew_failed,
                             .lost = lost,
                             .revoked = revoked,
                             .event = event,
                             .busy = busy,
                             .stopped = stopped};
  MUST(dlk_redis_store.create(&w.host, &conf, &w.store, &err) == DLK_OK);
}

void world_end(void) {
  if (w.asked_count > 0) {
    dlk_redis_store.stop(w.store);
    MUST(w.stopped && w.open == 0 && w.request_count == 0 && w.busy == 0);
    MUST(dlk_heap_first(&w.timers) == NULL);
  }
  dlk_redis_store.destroy(w.store);
}
