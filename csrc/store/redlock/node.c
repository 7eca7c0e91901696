/* Between the nodes and the host.
 *
 * I1 An ask ends once, in `done`, by its answer. While the store stops, asks
 *    are forgotten and freed with it.
 * I2 An ask keeps the loop running: its caller may be gone. */
#include "store/redlock/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis/op/store.h"
#include "store/redis/recipe/vote.h"
#include "store/redis/redis.h"

#define TYPE (&dlk_redis_store)

static struct dlk_redlock_node *node_of(struct dlk_host *host) {
  return (struct dlk_redlock_node *)(void *)host;
}

static struct dlk_host *above(struct dlk_host *host) {
  return node_of(host)->all->host;
}

/* What the engine does for a node as it is. */
#define UP(name, params, args)                                                 \
  static void up_##name params {                                               \
    above(host)->name args;                                                    \
  }
UP(random, (struct dlk_host * host, void *out, size_t n), (above(host), out, n))
UP(timer_set, (struct dlk_host * host, struct dlk_timer *timer, int64_t at),
   (above(host), timer, at))
UP(timer_clear, (struct dlk_host * host, struct dlk_timer *timer),
   (above(host), timer))
UP(hurry, (struct dlk_host * host), (above(host)))
UP(event, (struct dlk_host * host, const char *kind, const char *text),
   (above(host), kind, text))
UP(busy, (struct dlk_host * host, int delta), (above(host), delta))
UP(post, (struct dlk_host * host, struct dlk_post *p), (above(host), p))

static int64_t now(struct dlk_host *host) {
  return above(host)->now(above(host));
}

static struct uv_loop_s *loop(struct dlk_host *host) {
  return above(host)->loop(above(host));
}

static void horizon(struct dlk_host *host, int64_t until) {
  (void)host;
  (void)until;
}

static void done(struct dlk_host *host, struct dlk_op *op,
                 const struct dlk_error *err) {
  struct dlk_redlock_node *node = node_of(host);
  struct dlk_redlock_ask *a = DLK_CONTAINER(op, struct dlk_redlock_ask, op);
  if (node->all->stopping)
    return;
  dlk_list_remove(&a->entry);
  up_timer_clear(host, &a->timer);
  node->served = node->served || !err || err->code == DLK_BUSY;
  above(host)->busy(above(host), -1);
  a->answer(a, err);
  dlk_value_free(a->op.result);
  free(a);
}

static void watch(struct dlk_host *host, int fd) {
  struct dlk_redlock_node *node = node_of(host);
  dlk_net_wake_set(&node->all->wake, (int)node->number, fd);
}

static void stopped(struct dlk_host *host) {
  struct dlk_redlock *s = node_of(host)->all;
  if (++s->stopped == s->n)
    s->host->stopped(s->host);
}

static const struct dlk_host facade = {
    .abi = DLK_STORE_ABI,
    .now = now,
    .random = up_random,
    .timer_set = up_timer_set,
    .timer_clear = up_timer_clear,
    .done = done,
    .hurry = up_hurry,
    .horizon = horizon,
    .event = up_event,
    .busy = up_busy,
    .watch = watch,
    .post = up_post,
    .loop = loop,
    .stopped = stopped,
};

int64_t dlk_redlock_patience(const struct dlk_redlock *s) {
  unsigned served = 0;
  for (unsigned i = 0; i < s->n; i++)
    served += s->nodes[i].served;
  int64_t most = s->conf.connect_timeout;
  if (most > DLK_REDIS_REPAIRS_AFTER)
    most = DLK_REDIS_REPAIRS_AFTER;
  return served >= s->q || most < s->node_timeout ? s->node_timeout : most;
}

void dlk_redlock_failed(struct dlk_redlock_failures *f,
                        const struct dlk_error *err) {
  struct dlk_error none;
  if (!err) {
    dlk_error_set(&none, DLK_UNAVAILABLE, "out of memory");
    err = &none;
  }
  bool lasts = err->code != DLK_UNAVAILABLE && err->code != DLK_CLOSED;
  if (f->count == 0 || (lasts && f->lasting == 0))
    f->error = *err;
  f->count++;
  f->lasting += lasts;
}

enum dlk_code dlk_redlock_failure(const struct dlk_redlock *s,
                                  const struct dlk_redlock_failures *f) {
  return f->lasting > s->n - s->q ? f->error.code : DLK_UNAVAILABLE;
}

/* Of a node's URL, as lua/dlock/url.lua names them; NULL: none. */
static const struct dlk_option *part(const struct dlk_redlock_node *node,
                                     const char *name) {
  char key[32];
  snprintf(key, sizeof key, "%u %s", node->number + 1, name);
  return dlk_option_find(&node->all->conf.options, "nodes", key);
}

static const char *text_of(const struct dlk_redlock_node *node,
                           const char *name) {
  const struct dlk_option *o = part(node, name);
  return o ? o->text : NULL;
}

/* Its user and password go before those of all. */
static void read_url(struct dlk_redlock_node *node) {
  const struct dlk_option *port = part(node, "port");
  const char *username = text_of(node, "username");
  const char *password = text_of(node, "password");
  node->at.host = text_of(node, "host");
  node->at.port = port ? (uint16_t)port->number : 0;
  node->conf = node->all->conf;
  node->conf.hosts = &node->at;
  node->conf.host_count = node->at.host != NULL;
  node->conf.scheme = text_of(node, "scheme");
  node->conf.shown = text_of(node, "shown");
  node->conf.path = text_of(node, "path");
  if (username || password)
    node->conf.username = username;
  if (password) {
    node->conf.password = password;
    node->conf.secret = NULL;
  }
}

enum dlk_code dlk_redlock_nodes_new(struct dlk_redlock *s,
                                    const struct dlk_host *votes,
                                    struct dlk_error *err) {
  for (; s->n < DLK_REDLOCK_NODES; s->n++) {
    struct dlk_redlock_node *node = &s->nodes[s->n];
    node->host = facade;
    node->host.renewed = votes->renewed;
    node->host.renew_failed = votes->renew_failed;
    node->host.lost = votes->lost;
    node->host.revoked = votes->revoked;
    node->all = s;
    node->number = s->n;
    if (!part(node, "scheme"))
      break;
    read_url(node);
    enum dlk_code code =
        TYPE->create(&node->host, &node->conf, &node->store, err);
    if (code != DLK_OK)
      return code;
  }
  return DLK_OK;
}

static const char *process_of(const struct dlk_redlock_node *node) {
  const char *id = ((const struct dlk_redis *)node->store)->link->run_id;
  return id ? id : "";
}

bool dlk_redlock_has_twins(const struct dlk_redlock *s, struct dlk_error *err) {
  for (unsigned i = 0; i < s->n; i++)
    for (unsigned j = 0; j < i; j++)
      if (process_of(&s->nodes[i])[0] &&
          strcmp(process_of(&s->nodes[i]), process_of(&s->nodes[j])) == 0) {
        dlk_error_set(err, DLK_INVALID,
                      "%s and %s are the same server; each has one vote",
                      s->nodes[j].conf.shown, s->nodes[i].conf.shown);
        return true;
      }
  return false;
}

void dlk_redlock_nodes_free(struct dlk_redlock *s) {
  for (unsigned i = 0; i < s->n; i++)
    TYPE->destroy(s->nodes[i].store);
  while (!dlk_list_empty(&s->asks)) {
    struct dlk_redlock_ask *a =
        DLK_CONTAINER(s->asks.next, struct dlk_redlock_ask, entry);
    dlk_list_remove(&a->entry);
    dlk_value_free(a->op.result);
    free(a);
  }
}

struct dlk_redlock_ask *dlk_redlock_ask_new(struct dlk_redlock_node *node,
                                            enum dlk_op_kind kind,
                                            const char *key, size_t key_len) {
  struct dlk_redlock_ask *a = calloc(1, sizeof *a + TYPE->op_size);
  if (!a)
    return NULL;
  a->node = node;
  a->op.kind = kind;
  a->op.key = key;
  a->op.key_len = key_len;
  a->op.started = dlk_redlock_now(node->all);
  a->op.deadline = a->op.started + node->all->conf.io_timeout;
  a->op.data = a->data;
  dlk_list_append(&node->all->asks, &a->entry);
  return a;
}

void dlk_redlock_ask_send(struct dlk_redlock_ask *a) {
  struct dlk_host *host = a->node->all->host;
  host->busy(host, 1);
  TYPE->submit(a->node->store, &a->op);
}

void dlk_redlock_ask_cancel(struct dlk_redlock_ask *a) {
  if (!a || a->op.ending != DLK_OK)
    return;
  a->op.ending = DLK_UNAVAILABLE;
  TYPE->cancel(a->node->store, &a->op);
}
