/* The store's face to the engine: what was asked goes to the recipe that
 * does it; what the link is told goes to whom it concerns.
 *
 * The recipe, and why it excludes: an exclusive lock is one string key set
 * with NX and PX to a token that nobody else knows; every later write to it
 * (renew, release, hand-off) runs in a script that compares the token first.
 * So at any moment of the server's life the key names one holder. The
 * holder's own belief ends before the key does, because it counts from before
 * the request was written. What one server cannot promise (a fail-over, an
 * eviction, a clock that steps) the fence makes visible. After the well known
 * single-instance recipe of the Redis documentation, with the fences that
 * Kleppmann asked for, and a queue with hand-off by claim of our own. */
#include "store/redis/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis/conn/net.h"
#include "store/redis/conn/sentinel.h"
#include "store/redis/conn/tls.h"
#include "store/redis/op/orphan.h"
#include "store/redis/op/released.h"
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
#include "store/redis/recipe/ping.h"
#include "store/redis/recipe/release.h"
#include "store/redis/recipe/wait.h"

#define PREFIX_MAX 512

/* ---- what the link tells ---- */

static void subscribed(void *arg, int slot) {
  struct dlk_redis *s = arg;
  dlk_redis_change_subscribed(s, slot);
  struct dlk_list *l = s->waits.next;
  while (l != &s->waits) {
    struct dlk_redis_try *t = DLK_CONTAINER(l, struct dlk_redis_try, entry);
    l = l->next;
    if (dlk_redis_call_is_in(&t->call, slot))
      dlk_redis_queue_refresh(t);
  }
  /* All may have ended before it could be had. */
  dlk_redis_subscription_rest(s);
}

static void unsubscribed(void *arg, int slot, const struct dlk_error *why) {
  struct dlk_redis *s = arg;
  struct dlk_list left; /* who ends takes others along, from either list */
  dlk_list_take(&s->waits, &left);
  while (!dlk_list_empty(&left)) {
    struct dlk_redis_try *t =
        DLK_CONTAINER(left.next, struct dlk_redis_try, entry);
    dlk_list_remove(&t->entry);
    dlk_list_append(&s->waits, &t->entry);
    if (dlk_redis_call_is_in(&t->call, slot))
      dlk_redis_queue_unsubscribed(t, why);
  }
}

/* The wait or hold that a message names, or NULL. */
static struct dlk_redis_hold *named(struct dlk_redis *s, const char *token,
                                    size_t len) {
  struct dlk_redis_token *found = dlk_redis_token_find(&s->tokens, token, len);
  return found ? dlk_redis_hold_by(found) : NULL;
}

static void trace_message(struct dlk_redis *s, const struct dlk_redis_hold *h,
                          const char *what) {
  DLK_TRACE(dlk_redis_now(s), "redis", "message", h->call.key, h->call.key_len,
            "%s, token ..%s", what, dlk_redis_token_end(&h->token).text);
}

/* `g fence token`: the lock was handed to the token, for a claim. A token that
 * nobody waits with is let be: what became of it is settled by whoever gave it
 * up (leave, or orphan.c), and it may be a hold that has been detached since
 * and is somebody else's now. */
static void handed(struct dlk_redis *s, const char *p, size_t len) {
  const char *token = memchr(p, ' ', len);
  if (!token)
    return;
  token++;
  struct dlk_redis_hold *h = named(s, token, len - (size_t)(token - p));
  if (h && h->waiting) {
    trace_message(s, h, "handed over");
    dlk_redis_queue_handed(dlk_redis_try_of(h->waiting), strtoll(p, NULL, 10));
  }
}

static void message(void *arg, const char *p, size_t len) {
  struct dlk_redis *s = arg;
  if (len < 3 || p[1] != ' ' || s->stopping)
    return;
  if (p[0] == 'g') {
    handed(s, p + 2, len - 2);
    return;
  }
  if (p[0] == 'c') {
    dlk_redis_changed(s, p + 2, len - 2);
    return;
  }
  struct dlk_redis_hold *h = named(s, p + 2, len - 2);
  if (!h || h->waiting)
    return;
  trace_message(s, h, p[0] == 'b' ? "broken" : "asked for");
  if (p[0] == 'b')
    dlk_redis_broken(s, h);
  if (p[0] != 'r')
    return;
  h->noted = true; /* the server wrote down that it was asked */
  s->host->revoked(s->host, h->lease);
}

/* What is held is held there as well, or lost: its renewal tells. */
static void moved(void *arg) {
  struct dlk_redis *s = arg;
  dlk_redis_released_again(s);
  s->host->hurry(s->host);
}

static void link_stopped(void *arg) {
  struct dlk_redis *s = arg;
  s->host->stopped(s->host);
}

static bool needed(void *arg) {
  return dlk_redis_subscription_needed(arg);
}

static const struct dlk_redis_link_events link_events = {
    subscribed, unsubscribed, message, moved, needed, link_stopped};

/* ---- life ---- */

static bool by_sentinel(const struct dlk_conf *conf) {
  return strcmp(conf->scheme, "redis+sentinel") == 0 ||
         strcmp(conf->scheme, "rediss+sentinel") == 0;
}

static enum dlk_code database(const struct dlk_conf *conf, unsigned *db,
                              struct dlk_error *err) {
  const char *path = conf->path ? conf->path : "";
  if (by_sentinel(conf)) /* a name stands before it */
    path = strchr(path + 1, '/') ? strchr(path + 1, '/') : "";
  *db = 0;
  if (conf->host_count == 0 || path[0] == '\0' || strcmp(path, "/") == 0)
    return DLK_OK;
  char *end;
  unsigned long n = strtoul(path + 1, &end, 10);
  if (path[1] < '0' || path[1] > '9' || *end || n > 1000000)
    return dlk_error_set(err, DLK_INVALID,
                         "%s: the database must be a number, as in "
                         "redis://host:6379/0",
                         conf->shown);
  *db = (unsigned)n;
  return DLK_OK;
}

/* What waits behind it on the connection has its io_timeout. */
static enum dlk_code check_wait(const struct dlk_conf *conf,
                                struct dlk_error *err) {
  int64_t timeout = dlk_option_ns(&conf->options, "wait_timeout", 0);
  if (dlk_option_number(&conf->options, "wait_replicas", 0) > 0 &&
      timeout > conf->io_timeout / 2)
    return dlk_error_set(err, DLK_INVALID,
                         "%s: wait_timeout must be at most half of io_timeout",
                         conf->shown);
  return DLK_OK;
}

static enum dlk_code check_options(const struct dlk_conf *conf,
                                   struct dlk_error *err) {
  static const char *const known[] = {
      "fence_memory", "wait_replicas", "wait_timeout", "tls", "tls_library",
      /* of Sentinels only: */
      "sentinel_username", "sentinel_password", "sentinel_password_file",
      "address_map", NULL};
  static const char *const alone[] = {"fence_memory", "wait_replicas",
                                      "wait_timeout", "tls",
                                      "tls_library",  NULL};
  enum dlk_code code = dlk_option_check(
      &conf->options, by_sentinel(conf) ? known : alone, conf->shown, err);
  return code == DLK_OK ? check_wait(conf, err) : code;
}

static const char *prefix(const char *given) {
  return given ? given : "dlock:";
}

static enum dlk_code check(const struct dlk_conf *conf, unsigned *db,
                           struct dlk_error *err) {
  if (strcmp(conf->scheme, "redis") != 0 &&
      strcmp(conf->scheme, "rediss") != 0 && !by_sentinel(conf) &&
      strcmp(conf->scheme, "redis+unix") != 0)
    return dlk_error_set(err, DLK_UNSUPPORTED,
                         "%s: not built in; use redis://host:port/db",
                         conf->shown);
  if (conf->host_count > (by_sentinel(conf) ? 64u : 1u))
    return dlk_error_set(err, DLK_INVALID, "%s: redis:// takes one host",
                         conf->shown);
  if (by_sentinel(conf) && (!conf->path || strlen(conf->path) < 2))
    return dlk_error_set(err, DLK_INVALID,
                         "%s: behind the Sentinels the name of the primary is "
                         "missing, as in redis+sentinel://h1,h2,h3/mymaster",
                         conf->shown);
  if (conf->host_count == 0 && (!conf->path || conf->path[0] != '/'))
    return dlk_error_set(err, DLK_INVALID,
                         "%s: give a host, or a path as redis+unix:///path",
                         conf->shown);
  if (strncmp(conf->prefix, DLK_REDIS_RESERVED, strlen(DLK_REDIS_RESERVED)) ==
          0 ||
      strlen(conf->prefix) > PREFIX_MAX)
    return dlk_error_set(err, DLK_INVALID,
                         "%s: a prefix has at most %d bytes and does not "
                         "begin with " DLK_REDIS_RESERVED,
                         conf->shown, PREFIX_MAX);
  enum dlk_code code = check_options(conf, err);
  return code == DLK_OK ? database(conf, db, err) : code;
}

static struct dlk_redis_endpoint *endpoint_of(struct dlk_redis *s) {
  if (by_sentinel(&s->conf))
    return dlk_redis_sentinel_new(s->host, &s->conf, s->tls);
  dlk_redis_fixed_init(&s->fixed, &s->conf, s->tls);
  return &s->fixed.endpoint;
}

static void free_all(struct dlk_redis *s) {
  if (s && s->endpoint && s->endpoint->changes)
    s->endpoint->destroy(s->endpoint);
  free(s);
}

static enum dlk_code create(struct dlk_host *host, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  unsigned db = 0;
  enum dlk_code code = check(conf, &db, err);
  if (code != DLK_OK)
    return code;
  struct dlk_redis_tls *tls;
  code = dlk_redis_tls_new(conf, &tls, err);
  if (code != DLK_OK)
    return code;
  struct dlk_redis *s = calloc(1, sizeof *s);
  if (s) {
    s->host = host;
    s->conf = *conf;
    dlk_redis_names_init(&s->names, s->conf.prefix);
    s->tls = tls;
    s->endpoint = endpoint_of(s);
    if (s->endpoint)
      s->link = dlk_redis_net_new(host, &s->conf, s->endpoint, db,
                                  s->conf.prefix, s->channel, &link_events, s);
  }
  if (!s || !s->link) {
    dlk_redis_tls_free(tls);
    free_all(s);
    return dlk_error_set(err, DLK_UNAVAILABLE, "out of memory");
  }
  s->fences.link = s->link;
  s->replicas = (unsigned)dlk_option_number(&conf->options, "wait_replicas", 0);
  s->fences.memory = dlk_option_ns(&conf->options, "fence_memory", 0);
  dlk_redis_subscription_init(s);
  dlk_list_init(&s->waits);
  dlk_list_init(&s->watches);
  dlk_list_init(&s->orphans);
  *out = s;
  return DLK_OK;
}

/* The client's name is drawn at first use, which comes after any fork. */
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
  if (s->tls && !s->tls->settings.verify)
    s->host->event(s->host, "insecure",
                   "tls.verify is false: whoever answers there is believed, "
                   "and can read and change everything");
}

/* False: the op has ended. */
static bool set_key(struct dlk_redis_try *t) {
  const struct dlk_op *op = t->op;
  t->call.req.slot = DLK_REDIS_ANY_SLOT;
  if (op->kind == DLK_OP_PING || op->kind == DLK_OP_ATTACH ||
      op->kind == DLK_OP_LIST ||
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

static void administer(struct dlk_redis_try *t) {
  switch (t->op->kind) {
  case DLK_OP_INSPECT:
    dlk_redis_inspect(t);
    break;
  case DLK_OP_LIST:
    dlk_redis_list(t);
    break;
  case DLK_OP_BREAK:
    dlk_redis_break(t);
    break;
  case DLK_OP_REVOKE:
    dlk_redis_revoke(t);
    break;
  case DLK_OP_GUARD:
    dlk_redis_guard(t);
    break;
  case DLK_OP_DOWNGRADE:
    dlk_redis_downgrade(t);
    break;
  case DLK_OP_CHANGE:
    dlk_redis_change(t);
    break;
  default:
    dlk_redis_done_code(t, DLK_UNSUPPORTED);
    break;
  }
}

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
  if (!set_key(t))
    return;
  switch (op->kind) {
  case DLK_OP_ACQUIRE:
    dlk_redis_acquire(t);
    break;
  case DLK_OP_RELEASE:
    dlk_redis_release(t);
    break;
  case DLK_OP_EXTEND:
    dlk_redis_extend(t);
    break;
  case DLK_OP_DETACH:
    dlk_redis_detach(t);
    break;
  case DLK_OP_ATTACH:
    dlk_redis_attach(t);
    break;
  case DLK_OP_PING:
    dlk_redis_ping(t);
    break;
  case DLK_OP_LOCKED:
    dlk_redis_locked(t);
    break;
  default:
    administer(t);
    break;
  }
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
    /* else: the link ends the request, and that ends the op. */
  }
}

static void stop(void *store) {
  struct dlk_redis *s = store;
  s->stopping = true;
  s->host->timer_clear(s->host, &s->quiet);
  stop_all(s, &s->waits);
  stop_all(s, &s->watches);
  dlk_redis_orphans_end(s);
  s->link->stop(s->link);
}

static void destroy(void *store) {
  struct dlk_redis *s = store;
  if (!s)
    return;
  dlk_redis_orphans_end(s);
  s->link->destroy(s->link);
  dlk_redis_tls_free(s->tls);
  dlk_map_clear(&s->tokens.map);
  dlk_redis_released_free(s);
  free_all(s);
}

/* In braces: what the slot of a name is made from. */
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
    .prefix = prefix,
    .create = create,
    .submit = submit,
    .flush = flush,
    .await = await,
    .prompt = prompt,
    .cancel = cancel,
    .renew = dlk_redis_renew,
    .hand_over = dlk_redis_hand_over,
    .stop = stop,
    .destroy = destroy,
    .tag = tag,
};
