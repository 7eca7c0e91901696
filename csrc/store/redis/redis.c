/* The engine enters the Redis store here.
 *
 * I1  The lock's key names one holder: SET NX PX creates it with a random
 *     token, and each later write runs in a script that compares the token.
 * I2  A holder counts its time from before the request.
 *
 * A failover, an eviction or a clock step can break I1; the fence shows it. */
#include "store/redis/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/tls.h"
#include "store/redis/conf.h"
#include "store/redis/conn/cluster.h"
#include "store/redis/conn/net.h"
#include "store/redis/conn/sentinel.h"
#include "store/redis/op/orphan.h"
#include "store/redis/op/subscription.h"
#include "store/redis/op/try.h"
#include "store/redis/recipe/acquire.h"
#include "store/redis/recipe/admin.h"
#include "store/redis/recipe/attach.h"
#include "store/redis/recipe/guard.h"
#include "store/redis/recipe/hold.h"
#include "store/redis/recipe/inspect.h"
#include "store/redis/recipe/leader.h"
#include "store/redis/recipe/list.h"
#include "store/redis/recipe/messages.h"
#include "store/redis/recipe/ping.h"
#include "store/redis/recipe/release.h"

#define DEFAULT_PORT 6379

static const char *prefix(const char *given) {
  return given ? given : "dlock:";
}

static struct dlk_net_endpoint *endpoint_of(struct dlk_redis *s) {
  if (dlk_redis_conf_by_sentinel(&s->conf))
    return dlk_redis_sentinel_new(s->host, &s->conf, s->tls);
  dlk_net_fixed_init(&s->fixed, &s->conf, 0, DEFAULT_PORT, s->tls);
  return &s->fixed.endpoint;
}

static void free_all(struct dlk_redis *s) {
  if (s && s->endpoint && s->endpoint->changes)
    s->endpoint->destroy(s->endpoint);
  free(s);
}

static enum dlk_code create(struct dlk_host *host, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  struct dlk_redis_settings settings = {0};
  enum dlk_code code = dlk_redis_conf_read(conf, &settings, err);
  if (code != DLK_OK)
    return code;
  struct dlk_net_tls *tls = NULL;
  if (dlk_redis_conf_by_tls(conf))
    code = dlk_net_tls_new(conf, NULL, &tls, err);
  if (code != DLK_OK)
    return code;
  struct dlk_redis *s = calloc(1, sizeof *s);
  if (s) {
    s->host = host;
    s->conf = *conf;
    dlk_redis_names_init(&s->names, s->conf.prefix);
    s->tls = tls;
    bool routed = dlk_redis_conf_by_cluster(conf);
    s->endpoint = routed ? NULL : endpoint_of(s);
    if (routed)
      s->link = dlk_redis_cluster_new(host, &s->conf, tls, &settings,
                                      s->channel, &dlk_redis_messages, s);
    else if (s->endpoint)
      s->link = dlk_redis_net_new(host, &s->conf, s->endpoint, &settings,
                                  s->channel, &dlk_redis_messages, s);
  }
  if (!s || !s->link) {
    dlk_net_tls_free(tls);
    free_all(s);
    return dlk_error_set(err, DLK_UNAVAILABLE, "out of memory");
  }
  s->fences.link = s->link;
  s->replicas = settings.replicas;
  s->max_ttl = settings.max_ttl;
  s->fences.memory = dlk_option_ns(&conf->options, "fence_memory", 0);
  dlk_redis_subscription_init(s);
  dlk_list_init(&s->waits);
  dlk_list_init(&s->watches);
  dlk_list_init(&s->listeners);
  dlk_list_init(&s->orphans);
  *out = s;
  return DLK_OK;
}

/* The client's name is drawn at first use, after any fork. */
static void introduce(struct dlk_redis *s) {
  if (s->tokens.client[0])
    return;
  unsigned char bits[20];
  s->host->random(s->host, bits, sizeof bits);
  for (int i = 0; i < 8; i++)
    snprintf(s->tokens.client + 2 * i, 3, "%02x", (unsigned)bits[i]);
  snprintf(s->channel, sizeof s->channel, DLK_REDIS_RESERVED "c:%s",
           s->tokens.client);
  uint32_t seed;
  memcpy(&seed, bits + 8, sizeof seed);
  dlk_map_init(&s->tokens.map, seed);
  memcpy(&s->fences.lifted.seed, bits + 12, sizeof s->fences.lifted.seed);
  s->crowded.seed = s->fences.lifted.seed;
}

/* False: the op has ended. */
static bool set_key(struct dlk_redis_try *t) {
  const struct dlk_op *op = t->op;
  t->call.req.slot = DLK_REDIS_ANY_SLOT;
  if (op->kind == DLK_OP_PING || op->kind == DLK_OP_ATTACH ||
      op->kind == DLK_OP_LIST || op->kind == DLK_OP_PROLONG ||
      dlk_redis_call_key(&t->call, op->key, op->key_len))
    return true;
  struct dlk_error err;
  char key[DLK_QUOTED_MAX];
  dlk_error_set(&err, DLK_INVALID,
                "%s: names beginning with " DLK_REDIS_RESERVED
                " are dlock's own; use another key or a prefix",
                dlk_quote(key, op->key, op->key_len));
  dlk_redis_done(t, &err);
  return false;
}

static dlk_redis_do *const deeds[] = {
    [DLK_OP_ACQUIRE] = dlk_redis_acquire,
    [DLK_OP_RELEASE] = dlk_redis_release,
    [DLK_OP_EXTEND] = dlk_redis_extend,
    [DLK_OP_PING] = dlk_redis_ping,
    [DLK_OP_LOCKED] = dlk_redis_locked,
    [DLK_OP_DETACH] = dlk_redis_detach,
    [DLK_OP_ATTACH] = dlk_redis_attach,
    [DLK_OP_PROLONG] = dlk_redis_prolong,
    [DLK_OP_INSPECT] = dlk_redis_inspect,
    [DLK_OP_LIST] = dlk_redis_list,
    [DLK_OP_BREAK] = dlk_redis_break,
    [DLK_OP_REVOKE] = dlk_redis_revoke,
    [DLK_OP_GUARD] = dlk_redis_guard,
    [DLK_OP_DOWNGRADE] = dlk_redis_downgrade,
    [DLK_OP_PUBLISH] = dlk_redis_publish,
    [DLK_OP_LISTEN] = dlk_redis_listen,
    [DLK_OP_CHANGE] = dlk_redis_change,
};

static void submit(void *store, struct dlk_op *op) {
  struct dlk_redis *s = store;
  struct dlk_redis_try *t = dlk_redis_try_of(op);
  introduce(s);
  t->store = t->call.store = s;
  t->op = op;
  dlk_list_init(&t->entry);
  if (s->stopping) {
    dlk_redis_done_code(t, DLK_CLOSED);
    return;
  }
  size_t kind = op->kind;
  if (kind >= sizeof deeds / sizeof deeds[0] || !deeds[kind])
    dlk_redis_done_code(t, DLK_UNSUPPORTED);
  else if (set_key(t))
    deeds[kind](t);
}

static void flush(void *store) {
  struct dlk_redis *s = store;
  if (s->link->flush)
    s->link->flush(s->link);
}

static bool await(void *store) {
  struct dlk_redis *s = store;
  return s->link->await && s->link->await(s->link);
}

static bool prompt(void *store) {
  struct dlk_redis *s = store;
  return s->link->prompt && s->link->prompt(s->link);
}

static void cancel(void *store, struct dlk_op *op) {
  (void)store;
  dlk_redis_cancel(dlk_redis_try_of(op));
}

static void stop_all(struct dlk_redis *s, struct dlk_list *list) {
  while (!dlk_list_empty(list)) {
    struct dlk_redis_try *t =
        DLK_CONTAINER(list->next, struct dlk_redis_try, entry);
    dlk_list_remove(&t->entry);
    s->host->timer_clear(s->host, &t->timer);
    if (!t->call.busy)
      dlk_redis_done_code(t, DLK_CLOSED);
    /* Else the link ends the request, and with it the op. */
  }
}

static void stop(void *store) {
  struct dlk_redis *s = store;
  s->stopping = true;
  s->host->timer_clear(s->host, &s->quiet);
  stop_all(s, &s->waits);
  stop_all(s, &s->watches);
  stop_all(s, &s->listeners);
  dlk_redis_orphans_end(s);
  s->link->stop(s->link);
}

static void destroy(void *store) {
  struct dlk_redis *s = store;
  if (!s)
    return;
  dlk_redis_orphans_end(s);
  s->link->destroy(s->link);
  dlk_net_tls_free(s->tls);
  dlk_map_clear(&s->tokens.map);
  free_all(s);
}

static void tag(const char *before, const char *key, size_t len,
                char out[DLK_TAG_MAX]) {
  struct dlk_redis_name name;
  dlk_redis_name_make(&name, before, key, len);
  snprintf(out, DLK_TAG_MAX, "{%.*s}", DLK_REDIS_TAG, name.tag);
}

const struct dlk_store_type dlk_redis_store = {
    .abi = DLK_STORE_ABI,
    .name = "redis",
    .op_size = sizeof(struct dlk_redis_try),
    .lease_size = sizeof(struct dlk_redis_hold),
    .portable = true,
    .listens = true,
    .prefix = prefix,
    .create = create,
    .submit = submit,
    .cancel = cancel,
    .renew = dlk_redis_renew,
    .stop = stop,
    .destroy = destroy,
    .tag = tag,
    .fast = {.flush = flush,
             .await = await,
             .prompt = prompt,
             .hand_over = dlk_redis_hand_over},
};
