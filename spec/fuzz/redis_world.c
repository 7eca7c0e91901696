/* See redis_world.h. */
#include "redis_world.h"

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

/* Those that are there now; what is submitted meanwhile stays. */
void world_lose(enum dlk_code code) {
  for (size_t n = w.link.count; n > 0 && w.link.count > 0; n--)
    still_lose(&w.link, 0, code);
  still_refuse(&w.link, code);
}

struct dlk_redis_link *
dlk_redis_net_new(struct dlk_host *host, const struct dlk_conf *conf,
                  struct dlk_net_endpoint *endpoint,
                  const struct dlk_redis_settings *settings,
                  const char *channel,
                  const struct dlk_redis_link_events *events, void *arg) {
  (void)host, (void)conf, (void)endpoint, (void)settings, (void)channel;
  w.store = arg;
  still_init(&w.link, events, arg);
  return &w.link.link;
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
    MUST(w.stopped && w.open == 0 && w.busy == 0);
    MUST(w.link.count == 0 && still_waiting(&w.link) == 0);
    MUST(dlk_heap_first(&w.timers) == NULL);
  }
  dlk_redis_store.destroy(w.store);
}
