/* A store in memory, for the engine's own specs alone: keys whose names make it
 * misbehave lead down each path of the engine without a server. A store that
 * behaves, and is held to the contract, is model_store.c.
 *   slow:…     an acquire is granted 100 ms late, with `sent` of the start
 *   late:…     the first grant comes when its ttl is nearly over
 *   never:…    nothing is ever answered, not even a cancel
 *   mute:…     an acquire is not answered, a cancel is
 *   cross:…    an acquire is granted when it is cancelled
 *   shut:…     the same, and nobody is told whether it is locked
 *   flaky:…    every other renewal fails
 *   gone:…     the first renewal says lost
 *   deaf:…     a release is not answered, but its cancel is
 *   claim:…    granted on a claim of 2 s, which a renewal confirms
 *   claim-gone:…  the same, and the renewal says lost
 *   stale:…    every renewal fails
 *   mum:…      a renewal fails only when the key is released
 *   stuck:…    an extend is not answered, but its cancel is
 *   line:…     a grant tells who of the engine's own came before the next one
 *   session:…  all that is held ends 300 ms from now, as with a session
 *   silent:…   a break does not tell the holder
 *   unseen:…   a wait does not learn who holds it
 *   lazy:…     once asked for, it takes the store 400 ms to stop
 *   moved:…    a revoke says that another server holds the leases now, so that
 *              all of them are renewed
 * A break tells the holder that it lost the key, a revoke that somebody asks
 * for it. The key that was released last before its min_hold was over is
 * `locked` from then on. One lease at a time can be detached; its text is the
 * fence and the key. ping's result is the number of requests seen so far. Its
 * own options: first_fence, a number, and names, a table whose entry of a key
 * is what it calls the holder of that key. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/list.h"
#include "lua/binding.h"
#include "store/kit/admission.h"

struct item {
  struct dlk_list link;
  struct dlk_op *op;
  struct dlk_timer timer;
  struct store *store;
};

struct store {
  struct dlk_host *host;
  struct dlk_options options;
  struct dlk_list held;    /* lease_data links */
  struct dlk_list waiting; /* items */
  int64_t fence;
  unsigned requests, renewals;
  bool lazy;
  char kept[DLK_KEY_MAX + 1]; /* by its min_hold */
  struct {
    char key[DLK_KEY_MAX + 1];
    int64_t fence, ttl, ends;
  } detached; /* ends 0: none */
  struct dlk_timer stop;
};

struct lease_data {
  struct dlk_list link;
  struct dlk_lease *lease;
  int64_t ends, granted;
  bool renewing;
};

static bool is(const struct dlk_op *op, const char *kind) {
  size_t n = strlen(kind);
  return op->key_len >= n && memcmp(op->key, kind, n) == 0;
}

static bool same_key(const struct dlk_lease *l, const struct dlk_op *op) {
  return l->key_len == op->key_len && memcmp(l->key, op->key, l->key_len) == 0;
}

static void finish(struct store *s, struct dlk_op *op, enum dlk_code code) {
  struct dlk_error err = {.code = code, .text = ""};
  s->host->done(s->host, op, code == DLK_OK ? NULL : &err);
}

static struct lease_data *holder(struct store *s, const struct dlk_op *op) {
  int64_t now = s->host->now(s->host);
  for (struct dlk_list *l = s->held.next; l != &s->held; l = l->next) {
    struct lease_data *d = DLK_CONTAINER(l, struct lease_data, link);
    if (same_key(d->lease, op) && d->ends > now)
      return d;
  }
  return NULL;
}

static bool is_detached(struct store *s, const struct dlk_op *op) {
  return op->key_len == strlen(s->detached.key) &&
         memcmp(op->key, s->detached.key, op->key_len) == 0 &&
         s->detached.ends > s->host->now(s->host);
}

static struct item *first_waiting(struct store *s, const struct dlk_lease *l) {
  for (struct dlk_list *n = s->waiting.next; n != &s->waiting; n = n->next) {
    struct item *it = DLK_CONTAINER(n, struct item, link);
    if (same_key(l, it->op))
      return it;
  }
  return NULL;
}

/* A4: while there is a holder, a newcomer waits behind those that wait. */
static bool fits(struct store *s, const struct dlk_op *op, bool newcomer) {
  const struct dlk_want *one = NULL;
  uint64_t used = 0;
  int64_t now = s->host->now(s->host);
  for (struct dlk_list *l = s->held.next; l != &s->held; l = l->next) {
    struct lease_data *d = DLK_CONTAINER(l, struct lease_data, link);
    if (!same_key(d->lease, op) || d->ends <= now)
      continue;
    one = &d->lease->want;
    used += one->units;
  }
  if (newcomer && one && first_waiting(s, op->lease))
    return false;
  return dlk_fits(op->lease->want, one, used);
}

/* When the next one of the queue came; nobody there: now. */
static int64_t next_came(struct store *s, const struct dlk_op *op) {
  struct item *it = first_waiting(s, op->lease);
  return it ? it->op->started : s->host->now(s->host);
}

static void grant(struct store *s, struct dlk_op *op, int64_t sent) {
  struct lease_data *d = op->lease->data;
  d->lease = op->lease;
  d->granted = s->host->now(s->host);
  dlk_list_init(&d->link);
  dlk_list_append(&s->held, &d->link);
  op->lease->fence = ++s->fence;
  op->lease->handoffs.spare = op->lease->handoffs.most;
  s->fence += op->lease->handoffs.spare;
  op->lease->sent = sent;
  if (is(op, "line:") && op->lease->handoffs.before < next_came(s, op))
    op->lease->handoffs.before = next_came(s, op);
  if (is(op, "claim"))
    op->lease->claim = s->host->now(s->host) + 2 * DLK_SEC;
  d->ends = sent + op->lease->ttl;
  if (is(op, "session:"))
    s->host->horizon(s->host, s->host->now(s->host) + 300 * DLK_MS);
  finish(s, op, DLK_OK);
}

static void late(struct dlk_timer *timer, int64_t now) {
  struct item *it = DLK_CONTAINER(timer, struct item, timer);
  (void)now;
  struct store *s = it->store;
  struct dlk_op *op = it->op;
  int64_t sent = op->started;
  if (is(op, "late:"))
    sent = s->host->now(s->host) - op->lease->ttl + 12 * DLK_MS;
  dlk_list_remove(&it->link);
  grant(s, op, sent);
}

static void copy_key(char key[DLK_KEY_MAX + 1], const struct dlk_op *op) {
  snprintf(key, DLK_KEY_MAX + 1, "%.*s", (int)op->key_len, op->key);
}

static const char *name_of(struct store *s, const struct dlk_op *op) {
  char key[DLK_KEY_MAX + 1];
  copy_key(key, op);
  const struct dlk_option *o = dlk_option_find(&s->options, "names", key);
  return o ? o->text : "memory/1";
}

static void acquire(struct store *s, struct dlk_op *op) {
  struct item *it = op->data;
  it->op = op;
  it->store = s;
  it->timer.fire = late;
  dlk_list_init(&it->link);
  bool first_late = is(op, "late:") && s->fence == 0;
  if (is(op, "slow:") || first_late) {
    s->host->timer_set(s->host, &it->timer,
                       s->host->now(s->host) + 100 * DLK_MS);
    dlk_list_append(&s->waiting, &it->link);
  } else if (is(op, "mute:") || is(op, "shut:") || is(op, "cross:")) {
    dlk_list_append(&s->waiting, &it->link);
  } else if (is_detached(s, op)) {
    s->host->timer_set(s->host, &it->timer, s->detached.ends);
    dlk_list_append(&s->waiting, &it->link);
  } else if (fits(s, op, true)) {
    grant(s, op, s->host->now(s->host));
  } else if (op->wait) {
    if (!is(op, "unseen:"))
      snprintf(op->holder, sizeof op->holder, "%s", name_of(s, op));
    dlk_list_append(&s->waiting, &it->link);
  } else {
    finish(s, op, DLK_BUSY);
  }
}

/* A grant may submit and cancel others before it returns. */
static void next(struct store *s, const struct dlk_lease *freed) {
  struct item *it;
  while ((it = first_waiting(s, freed)) && fits(s, it->op, false)) {
    dlk_list_remove(&it->link);
    grant(s, it->op, s->host->now(s->host));
  }
}

static bool is_kept(struct store *s, const struct dlk_op *op) {
  char key[DLK_KEY_MAX + 1];
  copy_key(key, op);
  return strcmp(key, s->kept) == 0;
}

static void release(struct store *s, struct dlk_op *op) {
  struct lease_data *d = op->lease->data;
  int64_t least = op->unused ? 0 : op->lease->min_hold;
  if (s->host->now(s->host) < dlk_time_add(d->granted, least))
    copy_key(s->kept, op);
  bool held = d->lease && d->link.next != &d->link;
  if (d->renewing)
    s->host->renew_failed(s->host, op->lease);
  bool ours = (held && d->ends > s->host->now(s->host)) || is_detached(s, op);
  if (is_detached(s, op))
    s->detached.ends = 0;
  if (held)
    dlk_list_remove(&d->link);
  if (held)
    next(s, op->lease);
  finish(s, op, ours ? DLK_OK : DLK_LOST);
}

static void extend(struct store *s, struct dlk_op *op) {
  struct lease_data *d = op->lease->data;
  op->lease->sent = s->host->now(s->host);
  d->ends = op->lease->sent + op->ttl;
  finish(s, op, DLK_OK);
}

static void detach(struct store *s, struct dlk_op *op) {
  struct lease_data *d = op->lease->data;
  char text[DLK_KEY_MAX + 32];
  copy_key(s->detached.key, op);
  s->detached.fence = op->lease->fence;
  s->detached.ttl = op->lease->ttl;
  s->detached.ends = s->host->now(s->host) + op->lease->ttl;
  dlk_list_remove(&d->link);
  int n = snprintf(text, sizeof text, "%lld %s", (long long)op->lease->fence,
                   s->detached.key);
  op->result = dlk_value_string(text, (size_t)n);
  finish(s, op, DLK_OK);
}

static void attach(struct store *s, struct dlk_op *op) {
  struct dlk_lease *lease = op->lease;
  struct lease_data *d = lease->data;
  char *key = NULL;
  lease->fence = strtoll(lease->key, &key, 10);
  if (*key != ' ') {
    finish(s, op, DLK_INVALID);
    return;
  }
  lease->key_len -= (size_t)(key + 1 - lease->key);
  lease->key = op->key = key + 1;
  op->key_len = lease->key_len;
  if (!is_detached(s, op) || lease->fence != s->detached.fence) {
    finish(s, op, DLK_LOST);
    return;
  }
  s->detached.ends = 0;
  lease->ttl = s->detached.ttl;
  lease->sent = s->host->now(s->host);
  d->lease = lease;
  d->ends = lease->sent + lease->ttl;
  dlk_list_init(&d->link);
  dlk_list_append(&s->held, &d->link);
  finish(s, op, DLK_OK);
}

static void hand_over(void *store, struct dlk_lease *from,
                      struct dlk_lease *to) {
  struct store *s = store;
  struct lease_data *a = from->data, *b = to->data;
  if (a->renewing)
    s->host->renew_failed(s->host, from);
  a->renewing = false;
  b->lease = to;
  b->ends = a->ends;
  dlk_list_remove(&a->link);
  dlk_list_init(&b->link);
  dlk_list_append(&s->held, &b->link);
}

static void tell_holder(struct store *s, struct dlk_op *op) {
  struct lease_data *d = holder(s, op);
  if (op->kind == DLK_OP_REVOKE && is(op, "moved:")) {
    s->host->hurry(s->host);
  } else if (d && op->kind == DLK_OP_REVOKE) {
    s->host->revoked(s->host, d->lease);
  } else if (d) {
    dlk_list_remove(&d->link);
    if (!is(op, "silent:"))
      s->host->lost(s->host, d->lease, "the test broke it");
  }
  finish(s, op, DLK_OK);
}

static void submit(void *store, struct dlk_op *op) {
  struct store *s = store;
  s->requests++;
  s->lazy = s->lazy || is(op, "lazy:");
  if (is(op, "never:"))
    return;
  if (op->kind == DLK_OP_ACQUIRE) {
    acquire(s, op);
  } else if (op->kind == DLK_OP_RELEASE) {
    if (!is(op, "deaf:"))
      release(s, op);
  } else if (op->kind == DLK_OP_EXTEND) {
    if (!is(op, "stuck:"))
      extend(s, op);
  } else if (op->kind == DLK_OP_BREAK || op->kind == DLK_OP_REVOKE) {
    tell_holder(s, op);
  } else if (op->kind == DLK_OP_DETACH) {
    detach(s, op);
  } else if (op->kind == DLK_OP_ATTACH) {
    attach(s, op);
  } else if (op->kind == DLK_OP_PING) {
    op->result = dlk_value_number(s->requests);
    finish(s, op, DLK_OK);
  } else if (op->kind == DLK_OP_LOCKED && is(op, "shut:")) {
    finish(s, op, DLK_DENIED);
  } else if (op->kind == DLK_OP_LOCKED) {
    op->result =
        dlk_value_bool(holder(s, op) || is_kept(s, op) || is_detached(s, op));
    if (op->names && holder(s, op))
      snprintf(op->holder, sizeof op->holder, "%s", name_of(s, op));
    finish(s, op, DLK_OK);
  } else {
    finish(s, op, DLK_UNSUPPORTED);
  }
}

static void cancel(void *store, struct dlk_op *op) {
  struct store *s = store;
  s->requests++;
  if (is(op, "never:"))
    return;
  if (op->kind == DLK_OP_ACQUIRE) {
    struct item *it = op->data;
    s->host->timer_clear(s->host, &it->timer);
    dlk_list_remove(&it->link);
    if (is(op, "cross:")) {
      grant(s, op, op->started);
      return;
    }
    if (holder(s, op))
      next(s, op->lease);
  } else if (op->kind == DLK_OP_RELEASE) {
    struct lease_data *d = op->lease->data; /* its memory may go now */
    if (d->link.next)
      dlk_list_remove(&d->link);
  }
  finish(s, op, op->ending);
}

static void renew(void *store, struct dlk_lease *const *leases, size_t n) {
  struct store *s = store;
  s->requests++;
  for (size_t i = 0; i < n; i++) {
    struct dlk_lease *l = leases[i];
    struct lease_data *d = l->data;
    int64_t now = s->host->now(s->host);
    bool flaky = strncmp(l->key, "flaky:", 6) == 0;
    bool stale = strncmp(l->key, "stale:", 6) == 0;
    bool gone = strncmp(l->key, "gone:", 5) == 0 ||
                strncmp(l->key, "claim-gone:", 11) == 0;
    if (strncmp(l->key, "mum:", 4) == 0) {
      d->renewing = true;
    } else if (gone) {
      dlk_list_remove(&d->link);
      s->host->lost(s->host, l, "the test took it away");
    } else if (stale || (flaky && s->renewals++ % 2 == 0)) {
      s->host->renew_failed(s->host, l);
    } else {
      d->ends = now + l->ttl;
      s->host->renewed(s->host, l, now);
    }
  }
}

static void stop_late(struct dlk_timer *timer, int64_t now) {
  struct store *s = DLK_CONTAINER(timer, struct store, stop);
  (void)now;
  s->host->stopped(s->host);
}

static void stop(void *store) {
  struct store *s = store;
  s->stop.fire = stop_late;
  if (s->lazy)
    s->host->timer_set(s->host, &s->stop, s->host->now(s->host) + 400 * DLK_MS);
  else
    s->host->stopped(s->host);
}

static const char *prefix(const char *given) {
  return given ? given : "";
}

static enum dlk_code create(struct dlk_host *host, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  static const char *const known[] = {"first_fence", "names",
                                      /* it stands in for Redis: */
                                      "fence_memory", "wait_timeout", NULL};
  enum dlk_code code =
      dlk_option_check(&conf->options, known, conf->shown, err);
  if (code != DLK_OK)
    return code;
  struct store *s = calloc(1, sizeof *s);
  if (!s)
    return dlk_error_set(err, DLK_UNAVAILABLE, "out of memory");
  s->host = host;
  s->options = conf->options; /* what it points to stays */
  s->fence = (int64_t)dlk_option_number(&conf->options, "first_fence", 1) - 1;
  dlk_list_init(&s->held);
  dlk_list_init(&s->waiting);
  *out = s;
  return DLK_OK;
}

static const struct dlk_store_type memory = {
    .abi = DLK_STORE_ABI,
    .name = "memory",
    .op_size = sizeof(struct item),
    .lease_size = sizeof(struct lease_data),
    .portable = true,
    .prefix = prefix,
    .create = create,
    .submit = submit,
    .cancel = cancel,
    .renew = renew,
    .stop = stop,
    .destroy = free,
    .fast = {.hand_over = hand_over},
};

__attribute__((visibility("default"))) int luaopen_memory_store(lua_State *L);
__attribute__((visibility("default"))) int luaopen_later_store(lua_State *L);

int luaopen_memory_store(lua_State *L) {
  return dlk_lua_push_store(L, &memory);
}

/* One that was built for another version of dlock. */
int luaopen_later_store(lua_State *L) {
  static struct dlk_store_type later;
  later = memory;
  later.abi++;
  return dlk_lua_push_store(L, &later);
}
