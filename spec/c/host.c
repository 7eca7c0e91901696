/* The host that store tests run on: see host.h. Time is the real clock plus
 * `skew`, so a test can let time pass without waiting. */
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct hosted_op {
  struct dlk_op op; /* first */
  struct host *host;
  bool over, submitted;
  struct dlk_error error;
};

static void die(const char *what) {
  fprintf(stderr, "host: %s\n", what);
  abort();
}

static void *zalloc(size_t n) {
  void *p = calloc(1, n);
  if (p == NULL)
    die("out of memory");
  return p;
}

static struct host *of(struct dlk_host *host) {
  return (struct host *)(void *)host;
}

static int64_t now(struct dlk_host *host) {
  struct host *h = of(host);
  if (h->stands_at)
    h->skew = h->stands_at - dlk_clock_now();
  return h->stands_at ? h->stands_at : dlk_clock_now() + h->skew;
}

static void random_bytes(struct dlk_host *host, void *out, size_t n) {
  (void)host;
  if (getrandom(out, n, 0) != (ssize_t)n)
    die("getrandom");
}

static void timer_set(struct dlk_host *host, struct dlk_timer *timer,
                      int64_t at) {
  dlk_heap_put(&of(host)->timers, &timer->node, at);
}

static void timer_clear(struct dlk_host *host, struct dlk_timer *timer) {
  dlk_heap_remove(&of(host)->timers, &timer->node);
}

static void done(struct dlk_host *host, struct dlk_op *op,
                 const struct dlk_error *err) {
  struct hosted_op *o = (struct hosted_op *)(void *)op;
  struct host *h = of(host);
  if (o->over || !o->submitted)
    die("an operation ended twice");
  o->over = true;
  h->open_ops--;
  if (err != NULL)
    o->error = *err;
  if (h->on_done != NULL)
    h->on_done(h, op, err);
}

static void renewed(struct dlk_host *host, struct dlk_lease *lease,
                    int64_t sent) {
  lease->sent = sent;
  if (of(host)->on_renewed != NULL)
    of(host)->on_renewed(of(host), lease, true);
}

static void renew_failed(struct dlk_host *host, struct dlk_lease *lease) {
  if (of(host)->on_renewed != NULL)
    of(host)->on_renewed(of(host), lease, false);
}

static void lost(struct dlk_host *host, struct dlk_lease *lease,
                 const char *why) {
  if (of(host)->on_lost != NULL)
    of(host)->on_lost(of(host), lease, why);
}

static void revoked(struct dlk_host *host, struct dlk_lease *lease) {
  if (of(host)->on_revoked != NULL)
    of(host)->on_revoked(of(host), lease);
}

/* Nothing is renewed here but what a test asks for. */
static void hurry(struct dlk_host *host) {
  of(host)->hurries++;
}

static void horizon(struct dlk_host *host, int64_t until) {
  of(host)->horizon = until;
}

static void event(struct dlk_host *host, const char *kind, const char *text) {
  if (of(host)->on_event != NULL)
    of(host)->on_event(of(host), kind, text);
}

static void busy(struct dlk_host *host, int delta) {
  of(host)->busy += delta;
  if (of(host)->busy < 0)
    die("busy below zero");
}

static void watch(struct dlk_host *host, int fd) {
  of(host)->watched = fd;
}

static void post(struct dlk_host *host, struct dlk_post *p) {
  struct host *h = of(host);
  uv_mutex_lock(&h->lock);
  p->next = NULL;
  *h->last_post = p;
  h->last_post = &p->next;
  uv_mutex_unlock(&h->lock);
  uv_async_send(&h->kick);
}

static struct uv_loop_s *loop(struct dlk_host *host) {
  return &of(host)->loop;
}

static void stopped(struct dlk_host *host) {
  of(host)->stopped = true;
}

static void run_posts(uv_async_t *kick) {
  struct host *h = kick->data;
  for (;;) {
    uv_mutex_lock(&h->lock);
    struct dlk_post *p = h->posts;
    if (p != NULL && (h->posts = p->next) == NULL)
      h->last_post = &h->posts;
    uv_mutex_unlock(&h->lock);
    if (p == NULL)
      return;
    p->run(p);
  }
}

/* uv_run looks at timers before it sleeps too: one that is due just then must
 * not leave it asleep with no timer at all. */
static void on_tick(uv_timer_t *tick) {
  uv_stop(tick->loop);
}

/* As of one moment, as the engine does it: what is set for later by one of them
 * waits until the loop was run, however slow this is. */
static void fire_timers(struct host *h) {
  int64_t at = now(&h->host);
  for (int i = 0; i < 1000; i++) {
    struct dlk_heap_node *n = dlk_heap_first(&h->timers);
    if (n == NULL || n->at > at)
      return;
    dlk_heap_remove(&h->timers, n);
    struct dlk_timer *t = DLK_CONTAINER(n, struct dlk_timer, node);
    t->fire(t, at);
  }
}

static void turn(struct host *h, int64_t until) {
  fire_timers(h);
  const struct dlk_heap_node *n = dlk_heap_first(&h->timers);
  int64_t at = n != NULL && n->at - h->skew < until ? n->at - h->skew : until;
  int64_t left = at - dlk_clock_now();
  if (left <= 0) {
    uv_run(&h->loop, UV_RUN_NOWAIT);
    return;
  }
  uv_update_time(&h->loop);
  uv_timer_start(&h->tick, on_tick, (uint64_t)(left + DLK_MS - 1) / DLK_MS, 0);
  uv_run(&h->loop, UV_RUN_ONCE);
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
    .hurry = hurry,
    .horizon = horizon,
    .event = event,
    .busy = busy,
    .watch = watch,
    .post = post,
    .loop = loop,
    .stopped = stopped,
};

struct host *host_open(const struct dlk_store_type *type,
                       const struct dlk_conf *conf, struct dlk_error *err) {
  struct host *h = zalloc(sizeof *h);
  struct dlk_error own = {.code = DLK_OK};
  h->host = functions;
  h->type = type;
  h->watched = -1;
  uv_loop_init(&h->loop);
  uv_timer_init(&h->loop, &h->tick);
  uv_async_init(&h->loop, &h->kick, run_posts);
  uv_mutex_init(&h->lock);
  h->kick.data = h;
  h->posts = NULL;
  h->last_post = &h->posts;
  h->conf = *conf;
  if (type->prefix)
    h->conf.prefix = type->prefix(conf->prefix);
  if (type->create(&h->host, &h->conf, &h->store, &own) == DLK_OK)
    return h;
  if (err == NULL)
    die(own.text);
  *err = own;
  h->store = NULL;
  host_close(h);
  return NULL;
}

void host_close(struct host *h) {
  if (h->used) {
    h->type->stop(h->store);
    int64_t until = dlk_clock_now() + 10 * DLK_SEC;
    while (!h->stopped && dlk_clock_now() < until)
      turn(h, until);
    if (!h->stopped)
      die("the store did not stop");
    if (h->open_ops != 0)
      die("operations were left open");
    if (h->busy != 0)
      die("busy was left above zero");
    if (dlk_heap_first(&h->timers) != NULL)
      die("a timer was left");
  }
  if (h->store != NULL)
    h->type->destroy(h->store);
  uv_close((uv_handle_t *)&h->tick, NULL);
  uv_close((uv_handle_t *)&h->kick, NULL);
  uv_run(&h->loop, UV_RUN_DEFAULT);
  if (uv_loop_close(&h->loop) != 0)
    die("handles were left in the loop");
  uv_mutex_destroy(&h->lock);
  free(h);
}

struct dlk_lease *host_lease(struct host *h, const char *key, size_t len,
                             struct dlk_want want, const char *owner) {
  size_t data = (sizeof(struct dlk_lease) + 15) / 16 * 16;
  size_t text = data + h->type->lease_size;
  struct dlk_lease *l = zalloc(text + len + 1 + strlen(owner) + 1);
  char *at = (char *)l + text;
  l->data = (char *)l + data;
  l->key = memcpy(at, key, len);
  l->key_len = len;
  l->owner = strcpy(at + len + 1, owner);
  l->want = want;
  l->ttl = 30 * DLK_SEC;
  return l;
}

struct dlk_op *host_op(struct host *h, enum dlk_op_kind kind,
                       struct dlk_lease *lease, const char *key, size_t len) {
  size_t data = (sizeof(struct hosted_op) + 15) / 16 * 16;
  size_t text = data + h->type->op_size;
  struct hosted_op *o = zalloc(text + len + 1);
  o->host = h;
  o->op.kind = kind;
  o->op.data = (char *)o + data;
  o->op.lease = lease;
  if (lease != NULL) {
    o->op.key = lease->key;
    o->op.key_len = lease->key_len;
  } else if (key != NULL) {
    o->op.key = memcpy((char *)o + text, key, len);
    o->op.key_len = len;
  }
  return &o->op;
}

void host_submit(struct host *h, struct dlk_op *op) {
  struct hosted_op *o = (struct hosted_op *)(void *)op;
  o->submitted = true;
  h->used = true;
  h->open_ops++;
  op->started = now(&h->host);
  op->deadline = DLK_FOREVER;
  h->type->submit(h->store, op);
}

void host_cancel(struct host *h, struct dlk_op *op, enum dlk_code ending) {
  if (host_over(op) || op->ending != DLK_OK)
    return;
  op->ending = ending;
  h->type->cancel(h->store, op);
}

void host_op_free(struct dlk_op *op) {
  if (op == NULL)
    return;
  dlk_value_free(op->result);
  free(op);
}

bool host_over(const struct dlk_op *op) {
  return ((const struct hosted_op *)(const void *)op)->over;
}

const struct dlk_error *host_error(const struct dlk_op *op) {
  return &((const struct hosted_op *)(const void *)op)->error;
}

bool host_wait(struct host *h, struct dlk_op *op, int64_t ns) {
  int64_t until = dlk_clock_now() + ns;
  while (!host_over(op) && dlk_clock_now() < until)
    turn(h, until);
  return host_over(op);
}

void host_run(struct host *h, int64_t ns) {
  int64_t until = dlk_clock_now() + ns;
  do
    turn(h, until);
  while (dlk_clock_now() < until);
}

void host_turn(struct host *h, int64_t ns) {
  turn(h, dlk_clock_now() + ns);
}
