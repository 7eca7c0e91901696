/* The engine enters the Redlock store here: a lock is a majority of locks on N
 * independent Redis servers, each of which is a Redis store of its own.
 *
 * hold.c has rounds of votes, renewal and repair, count.c their counting and
 * the fence, poll.c all else, node.c the nodes. Lost answers, tokens and
 * orphans are the Redis stores' matter. */
#include "store/redlock/redlock.h"

#include <stdlib.h>
#include <string.h>

#include "store/redis/conf.h"
#include "store/redis/redis.h"
#include "store/redlock/hold.h"
#include "store/redlock/poll.h"

static const char *prefix(const char *given) {
  return dlk_redis_store.prefix(given);
}

static void tag(const char *before, const char *key, size_t len,
                char out[DLK_TAG_MAX]) {
  dlk_redis_store.tag(before, key, len, out);
}

static void destroy(void *store) {
  struct dlk_redlock *s = store;
  if (!s)
    return;
  dlk_redlock_nodes_free(s);
  dlk_redlock_polls_free(s);
  dlk_redlock_holds_free(s);
  free(s);
}

static enum dlk_code create(struct dlk_host *host, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  struct dlk_redlock *s = calloc(1, sizeof *s);
  if (!s)
    return dlk_error_set(err, DLK_UNAVAILABLE, "out of memory");
  s->host = host;
  s->conf = *conf;
  s->node_timeout = dlk_option_ns(&conf->options, "node_timeout", 0);
  s->max_ttl = dlk_option_ns(&conf->options, "max_ttl", DLK_REDIS_MAX_TTL);
  dlk_net_wake_init(&s->wake, host);
  dlk_list_init(&s->asks);
  dlk_list_init(&s->votes);
  dlk_list_init(&s->holds);
  dlk_list_init(&s->polls);
  enum dlk_code code = dlk_redlock_nodes_new(s, &dlk_redlock_votes, err);
  s->q = dlk_redlock_quorum(s->n);
  if (code != DLK_OK)
    destroy(s);
  else
    *out = s;
  return code;
}

/* What a majority of single servers cannot keep. */
static const char *missing(const struct dlk_op *op) {
  if (op->kind == DLK_OP_GUARD)
    return "guarded writes need one place; check the fence where you write";
  if (op->kind == DLK_OP_PUBLISH)
    return "a majority cannot replace a value in one step; resign, and "
           "campaign with the new one";
  if (op->kind == DLK_OP_DOWNGRADE ||
      (op->kind == DLK_OP_ACQUIRE && op->lease->want.cap == 0 &&
       op->lease->want.units > 0))
    return "there are no readers, which would starve writers without a queue; "
           "use a mutex, or redis:// or zookeeper://";
  if (op->kind == DLK_OP_ACQUIRE && op->lease->want.units > 0)
    return "a majority cannot count permits; use the mutexes key#1 to key#n, "
           "or redis://";
  return NULL;
}

static int64_t ttl_of(const struct dlk_op *op) {
  bool extends = op->kind == DLK_OP_EXTEND || op->kind == DLK_OP_PROLONG;
  return extends ? op->ttl : op->kind == DLK_OP_ACQUIRE ? op->lease->ttl : 0;
}

static void submit(void *store, struct dlk_op *op) {
  struct dlk_redlock *s = store;
  struct dlk_error err = {.code = DLK_CLOSED};
  char key[DLK_QUOTED_MAX];
  const char *what = missing(op);
  if (what)
    dlk_error_set(&err, DLK_UNSUPPORTED, "%s: on a Redlock %s",
                  dlk_quote(key, op->key, op->key_len), what);
  else if (ttl_of(op) > s->max_ttl)
    dlk_error_set(&err, DLK_INVALID,
                  "%s: the ttl of %g s is longer than max_ttl, %g s",
                  dlk_quote(key, op->key, op->key_len),
                  (double)ttl_of(op) / DLK_SEC, (double)s->max_ttl / DLK_SEC);
  if (what || s->stopping || ttl_of(op) > s->max_ttl)
    s->host->done(s->host, op, &err);
  else if (op->kind == DLK_OP_ACQUIRE || op->kind == DLK_OP_ATTACH)
    dlk_redlock_acquire(s, op);
  else
    dlk_redlock_poll(s, op);
}

static void cancel(void *store, struct dlk_op *op) {
  if (op->kind == DLK_OP_ACQUIRE || op->kind == DLK_OP_ATTACH)
    dlk_redlock_give_up(store, op);
  else
    dlk_redlock_poll_cancel(op);
}

static void flush(void *store) {
  struct dlk_redlock *s = store;
  for (unsigned i = 0; i < s->n; i++)
    dlk_redis_store.fast.flush(s->nodes[i].store);
}

static void stop(void *store) {
  struct dlk_redlock *s = store;
  s->stopping = true;
  for (struct dlk_list *l = s->holds.next; l != &s->holds; l = l->next)
    s->host->timer_clear(
        s->host, &DLK_CONTAINER(l, struct dlk_redlock_hold, entry)->timer);
  for (struct dlk_list *l = s->asks.next; l != &s->asks; l = l->next)
    s->host->timer_clear(
        s->host, &DLK_CONTAINER(l, struct dlk_redlock_ask, entry)->timer);
  dlk_redlock_polls_stop(s);
  for (unsigned i = 0; i < s->n; i++)
    dlk_redis_store.stop(s->nodes[i].store);
}

const struct dlk_store_type dlk_redlock_store = {
    .abi = DLK_STORE_ABI,
    .name = "redlock",
    .op_size = sizeof(struct dlk_redlock_op),
    .lease_size = sizeof(struct dlk_redlock_lease),
    .portable = true,
    .listens = true,
    .prefix = prefix,
    .create = create,
    .submit = submit,
    .cancel = cancel,
    .renew = dlk_redlock_renew,
    .stop = stop,
    .destroy = destroy,
    .tag = tag,
    .fast = {.flush = flush},
};
