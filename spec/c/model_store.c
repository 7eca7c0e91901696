/* A whole store in one file, held to the contract (spec/contract): all that a
 * store must do, nothing that makes it fast. The one to copy from.
 *
 * The "server" is a table in a file that all processes map, under flock. One in
 * LOST requests gets lost, and one in LOST answers: the client repeats it under
 * the same number until an answer comes.
 *
 * M1  A request changes the table once. An acquire, a leave, an extension and a
 *     downgrade may be repeated: each finds its entry. Of the others (release,
 *     break, revoke) the table keeps the last ANSWERS.
 * M2  A hold ends at `ends`, which its own client alone moves, and not before
 *     `until`, the end of its min_hold. `sent` is read before the request.
 * M3  A waiter polls, and each poll moves the entry's end by WAITER. A grant is
 *     an offer until the next poll, which begins ttl and min_hold: a dead
 *     waiter keeps the key no longer than its entry.
 * M4  Each change of the holders grants to the waiters at the head that fit. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lua/binding.h"
#include "store/kit/admission.h"
#include "store/kit/shown.h"

#define LOST 5
#define AGAIN (3 * DLK_MS)  /* after a lost one */
#define POLL (10 * DLK_MS)  /* of a waiter */
#define LOOK (100 * DLK_MS) /* of a holder */
#define WAITER (2 * DLK_SEC)
#define SLOTS 2048
#define ANSWERS 1024
#define PREFIX_MAX 64
#define VALUE_MAX 1024
#define WAITS DLK_CODES /* an answer that ends nothing: ask again */

struct key {
  size_t len;
  char bytes[PREFIX_MAX + DLK_KEY_MAX];
};

struct slot {
  uint64_t id; /* 0: nobody's, for the rest of a min_hold */
  uint64_t order;
  bool used, held, asked;
  struct key key;
  struct dlk_want want;
  int64_t fence, since, ends, until;
  size_t value_len;
  char owner[DLK_HOLDER_MAX], value[VALUE_MAX];
};

struct table {
  uint64_t order, answered;
  int64_t fence;
  size_t top; /* slots that were ever used */
  struct {
    uint64_t number;
    enum dlk_code answer;
  } answers[ANSWERS];
  struct slot slots[SLOTS];
};

struct store {
  struct dlk_host *host;
  char *path, *prefix;
  int fd;
  struct table *t;
  struct dlk_list ops, holds;
};

struct hold {
  struct dlk_list link;   /* in store->holds */
  struct dlk_timer timer; /* looks whether it was broken or revoked */
  struct store *s;
  struct dlk_lease *lease;
  uint64_t id;
  size_t at; /* its slot, perhaps */
};

struct call {
  struct dlk_list link; /* in store->ops */
  struct dlk_timer timer;
  struct store *s;
  struct dlk_op *op;
  bool leaves;
  int ahead; /* waiters, at the last poll */
  uint64_t number;
  struct key key;
};

/* ---- the server: under the lock ---- */

static bool same(const struct slot *a, const struct key *key) {
  return a->used && a->key.len == key->len &&
         memcmp(a->key.bytes, key->bytes, key->len) == 0;
}

/* The holder or waiter of the key that is next in order; NULL: none is. */
static struct slot *next(struct table *t, const struct key *key, bool held,
                         uint64_t after) {
  struct slot *found = NULL;
  for (struct slot *a = t->slots; a < t->slots + t->top; a++)
    if (same(a, key) && a->held == held && a->order > after &&
        (found == NULL || a->order < found->order))
      found = a;
  return found;
}

static bool fits(struct table *t, const struct key *key, struct dlk_want want) {
  const struct dlk_want *one = NULL;
  uint64_t used = 0;
  for (struct slot *a = t->slots; a < t->slots + t->top; a++)
    if (same(a, key) && a->held) {
      one = &a->want;
      used += one->units;
    }
  return dlk_fits(want, one, used);
}

/* M4. `key` may be that of a slot that is free by now. */
static void grant(struct table *t, const struct key *key, int64_t now) {
  struct slot *a;
  while ((a = next(t, key, false, 0)) != NULL && fits(t, key, a->want)) {
    a->held = true;
    a->fence = ++t->fence;
    a->since = now; /* `ends`: as before (M3) */
  }
}

static void drop(struct table *t, struct slot *a, int64_t now) {
  a->used = false;
  grant(t, &a->key, now);
}

/* What is over goes, with those offers that it makes over. */
static void tidy(struct table *t, int64_t now) {
  for (size_t i = 0; i < t->top; i++)
    if (t->slots[i].used && t->slots[i].ends <= now &&
        t->slots[i].until <= now) {
      drop(t, &t->slots[i], now);
      i = (size_t)-1; /* from the beginning */
    }
}

static void name_holder(struct call *c) {
  const struct slot *a = next(c->s->t, &c->key, true, 0);
  if (a == NULL)
    a = next(c->s->t, &c->key, false, 0);
  if (a != NULL)
    snprintf(c->op->holder, sizeof c->op->holder, "%s", a->owner);
}

/* The lease's entry, or NULL. Most stay where they were. */
static struct slot *entry(struct store *s, const struct dlk_lease *lease) {
  struct hold *h = lease->data;
  for (size_t i = 0; i < s->t->top; i++, h->at++) {
    struct slot *a = &s->t->slots[h->at % s->t->top];
    if (a->used && a->id == h->id)
      return a;
  }
  return NULL;
}

static struct slot *held(struct store *s, const struct dlk_lease *lease,
                         int64_t now) {
  struct slot *a = entry(s, lease);
  return a != NULL && a->held && a->ends > now ? a : NULL;
}

static struct slot *new_entry(struct call *c, int64_t now) {
  const struct dlk_lease *l = c->op->lease;
  const struct hold *h = l->data;
  struct table *t = c->s->t;
  size_t i = 0;
  while (i < t->top && t->slots[i].used)
    i++;
  if (i == SLOTS)
    return NULL;
  t->top = i < t->top ? t->top : i + 1;
  struct slot *a = &t->slots[i];
  memset(a, 0, sizeof *a);
  a->used = true;
  a->id = h->id;
  a->order = ++t->order;
  a->key = c->key;
  a->want = l->want;
  a->since = now;
  snprintf(a->owner, sizeof a->owner, "%s", l->owner ? l->owner : "");
  a->value_len = l->value_len;
  if (l->value_len > 0)
    memcpy(a->value, l->value, l->value_len);
  return a;
}

/* Whether one right ahead of it shares under another limit (A2). */
static bool limited(struct call *c, uint64_t order) {
  struct table *t = c->s->t;
  const struct slot *ahead = NULL;
  c->ahead = 0;
  for (struct slot *a = t->slots; a < t->slots + t->top; a++)
    if (same(a, &c->key) && !a->held && a->order < order) {
      c->ahead++;
      if (ahead == NULL || a->order > ahead->order)
        ahead = a;
    }
  if (ahead == NULL)
    ahead = next(t, &c->key, true, 0);
  return ahead != NULL &&
         dlk_beside(c->op->lease->want, ahead->want) == DLK_BESIDE_OTHER_LIMIT;
}

static enum dlk_code join(struct call *c, int64_t now) {
  struct table *t = c->s->t;
  struct slot *a = entry(c->s, c->op->lease);
  if (a == NULL) {
    if (limited(c, UINT64_MAX))
      return DLK_INVALID;
    name_holder(c);
    if (!c->op->wait && (next(t, &c->key, false, 0) != NULL ||
                         !fits(t, &c->key, c->op->lease->want)))
      return DLK_BUSY;
    a = new_entry(c, now);
    if (a == NULL)
      return DLK_UNAVAILABLE;
    grant(t, &c->key, now);
  }
  a->ends = now + WAITER;
  if (!a->held && limited(c, a->order)) {
    drop(t, a, now);
    return DLK_INVALID;
  }
  if (!a->held)
    return WAITS;
  a->ends = dlk_time_add(now, c->op->lease->ttl);
  a->until = dlk_time_add(now, c->op->lease->min_hold);
  c->op->lease->fence = a->fence;
  return DLK_OK;
}

static enum dlk_code leave(struct call *c, int64_t now) {
  struct slot *a = entry(c->s, c->op->lease);
  if (a != NULL && a->held)
    return join(c, now); /* a grant has crossed it */
  if (a != NULL)
    drop(c->s->t, a, now);
  name_holder(c);
  return c->op->ending;
}

static enum dlk_code change(struct call *c, int64_t now) {
  struct table *t = c->s->t;
  struct slot *a = held(c->s, c->op->lease, now);
  if (a == NULL)
    return DLK_LOST;
  if (c->op->kind == DLK_OP_RELEASE) {
    a->id = 0;
    a->ends = now;
    if (c->op->unused || a->until <= now)
      drop(t, a, now);
  } else if (c->op->kind == DLK_OP_EXTEND) {
    a->ends = dlk_time_add(now, c->op->ttl);
  } else if (c->op->kind == DLK_OP_PUBLISH) {
    a->value_len = c->op->text_len;
    if (a->value_len > 0)
      memcpy(a->value, c->op->text, a->value_len);
  } else if (a->want.units == 0) {
    a->want = (struct dlk_want){1, 0};
    grant(t, &c->key, now);
  }
  return DLK_OK;
}

static enum dlk_code break_or_revoke(struct call *c, int64_t now) {
  enum dlk_code answer = DLK_LOST;
  struct slot *a;
  for (uint64_t at = 0; (a = next(c->s->t, &c->key, true, at)) != NULL;
       at = a->order) {
    answer = DLK_OK;
    if (c->op->kind == DLK_OP_REVOKE)
      a->asked = true;
    else
      a->used = false;
  }
  grant(c->s->t, &c->key, now);
  return answer;
}

/* M1 */
static enum dlk_code once(struct call *c, int64_t now) {
  struct table *t = c->s->t;
  for (size_t i = 0; i < ANSWERS; i++)
    if (t->answers[i].number == c->number)
      return t->answers[i].answer;
  enum dlk_code answer =
      c->op->kind == DLK_OP_RELEASE ? change(c, now) : break_or_revoke(c, now);
  size_t at = t->answered++ % ANSWERS;
  t->answers[at].number = c->number;
  t->answers[at].answer = answer;
  return answer;
}

static double seconds(int64_t ns) {
  return (double)ns / (double)DLK_SEC;
}

static struct dlk_value *show(struct call *c, bool held, int64_t now) {
  struct dlk_value *all = dlk_value_list();
  const struct slot *a;
  uint64_t at = 0;
  for (int i = 0; i < DLK_SHOWN_MAX; i++, at = a->order) {
    a = next(c->s->t, &c->key, held, at);
    if (a == NULL)
      break;
    struct dlk_value *v = dlk_value_string(a->owner, strlen(a->owner));
    double left = seconds((a->ends > a->until ? a->ends : a->until) - now);
    double since = seconds(now - a->since);
    v = held ? dlk_shown_holder(v, a->want, a->fence, left, since)
             : dlk_shown_waiter(v, a->want, since);
    if (held && a->value_len > 0)
      v = dlk_value_set(v, "value", dlk_value_string(a->value, a->value_len));
    all = dlk_value_add(all, v);
  }
  return all;
}

static struct dlk_value *inspect(struct call *c, int64_t now) {
  const struct slot *holder = next(c->s->t, &c->key, true, 0);
  const struct slot *a = holder ? holder : next(c->s->t, &c->key, false, 0);
  return a == NULL ? dlk_value_nil()
                   : dlk_shown_key(c->op, a->want, holder != NULL,
                                   show(c, true, now), show(c, false, now));
}

/* The cursor is a slot's number. A key may be shown twice, as anywhere. */
static struct dlk_value *list(struct call *c) {
  struct table *t = c->s->t;
  size_t skip = strlen(c->s->prefix), i = 0;
  size_t left = c->op->limit > 0 ? c->op->limit : DLK_PAGE_MAX;
  struct dlk_value *keys = dlk_value_list();
  if (c->op->text_len > 0)
    i = strtoul(c->op->text, NULL, 10);
  for (size_t from = i; i < t->top && left > 0; i++) {
    const struct slot *a = &t->slots[i];
    bool shown = !a->used || a->key.len < c->key.len ||
                 memcmp(a->key.bytes, c->key.bytes, c->key.len) != 0;
    for (size_t k = from; k < i && !shown; k++)
      shown = same(&t->slots[k], &a->key);
    if (shown)
      continue;
    keys = dlk_value_add(
        keys, dlk_value_string(a->key.bytes + skip, a->key.len - skip));
    left--;
  }
  char cursor[8];
  snprintf(cursor, sizeof cursor, "%u", (unsigned)i);
  return dlk_value_add(dlk_value_add(dlk_value_tuple(), keys),
                       i < t->top ? dlk_value_string(cursor, strlen(cursor))
                                  : dlk_value_nil());
}

static enum dlk_code serve(struct call *c, int64_t now) {
  struct dlk_op *op = c->op;
  const struct slot *a = next(c->s->t, &c->key, true, 0);
  switch (op->kind) {
  case DLK_OP_ACQUIRE:
    return c->leaves ? leave(c, now) : join(c, now);
  case DLK_OP_EXTEND:
  case DLK_OP_DOWNGRADE:
  case DLK_OP_PUBLISH:
    return change(c, now);
  case DLK_OP_RELEASE:
  case DLK_OP_BREAK:
  case DLK_OP_REVOKE:
    return once(c, now);
  case DLK_OP_CHANGE:
    return (a != NULL ? a->fence : 0) != op->fence ? DLK_OK : WAITS;
  case DLK_OP_LOCKED:
    if (a != NULL)
      name_holder(c);
    op->result = dlk_value_bool(a != NULL);
    return DLK_OK;
  case DLK_OP_INSPECT:
    op->result = inspect(c, now);
    return DLK_OK;
  case DLK_OP_LIST:
    op->result = list(c);
    return DLK_OK;
  default: /* ping */
    op->result = dlk_value_number(seconds(c->s->host->now(c->s->host) - now));
    return DLK_OK;
  }
}

/* ---- the client ---- */

static bool lock(struct store *s) {
  if (s->fd < 0) {
    s->fd = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (s->fd < 0 || ftruncate(s->fd, sizeof *s->t) != 0)
      return false;
    void *at =
        mmap(NULL, sizeof *s->t, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    s->t = at != MAP_FAILED ? at : NULL;
  }
  if (s->t == NULL || flock(s->fd, LOCK_EX) != 0)
    return false;
  tidy(s->t, s->host->now(s->host));
  return true;
}

static void unlock(struct store *s) {
  flock(s->fd, LOCK_UN);
}

static bool unlucky(struct store *s) {
  uint16_t r;
  s->host->random(s->host, &r, sizeof r);
  return r % LOST == 0;
}

static void set(struct store *s, struct dlk_timer *timer, int64_t after) {
  s->host->timer_set(s->host, timer, s->host->now(s->host) + after);
}

static void finish(struct call *c, const struct dlk_error *err) {
  c->s->host->timer_clear(c->s->host, &c->timer);
  dlk_list_remove(&c->link);
  c->s->host->done(c->s->host, c->op, err->code == DLK_OK ? NULL : err);
}

static void finish_code(struct call *c, enum dlk_code code) {
  struct dlk_error err = {.code = code};
  finish(c, &err);
}

static void let_go(struct hold *h) {
  if (dlk_list_empty(&h->link))
    return;
  dlk_list_remove(&h->link);
  h->s->host->timer_clear(h->s->host, &h->timer);
  h->s->host->busy(h->s->host, -1);
}

static void lost(struct dlk_lease *lease) {
  struct hold *h = lease->data;
  let_go(h);
  h->s->host->lost(h->s->host, lease, "it was broken, or its ttl ran out");
}

static void look(struct dlk_timer *timer, int64_t now) {
  struct hold *h = DLK_CONTAINER(timer, struct hold, timer);
  struct store *s = h->s;
  bool asked = lock(s);
  struct slot *a = asked ? held(s, h->lease, now) : NULL;
  bool revoked = a != NULL && a->asked;
  if (revoked)
    a->asked = false; /* it is told once */
  if (asked)
    unlock(s);
  if (asked && a == NULL) {
    lost(h->lease);
    return;
  }
  set(s, timer, LOOK);
  if (revoked)
    s->host->revoked(s->host, h->lease);
}

static void hold_on(struct store *s, struct dlk_lease *lease) {
  struct hold *h = lease->data;
  h->lease = lease;
  h->timer.fire = look;
  dlk_list_append(&s->holds, &h->link);
  set(s, &h->timer, LOOK);
  s->host->busy(s->host, 1);
}

static void take(struct call *c, enum dlk_code answer, int64_t sent) {
  struct dlk_error err = {.code = answer};
  struct dlk_op *op = c->op;
  if (answer == WAITS) { /* those far behind poll less often */
    set(c->s, &c->timer, POLL + c->ahead * POLL / 8);
    return;
  }
  if (answer == DLK_OK &&
      (op->kind == DLK_OP_ACQUIRE || op->kind == DLK_OP_EXTEND))
    op->lease->sent = sent;
  if (answer == DLK_OK && op->kind == DLK_OP_ACQUIRE) {
    hold_on(c->s, op->lease);
  } else if (answer == DLK_INVALID) {
    dlk_error_other_limit(&err, op->key, op->key_len);
  } else if (op->kind == DLK_OP_BREAK || op->kind == DLK_OP_REVOKE) {
    op->result = dlk_value_bool(answer == DLK_OK);
    err.code = DLK_OK;
  } else if (answer == DLK_LOST) {
    let_go(op->lease->data);
  }
  finish(c, &err);
}

/* A lost request, or a lost answer, is asked again. */
static void ask(struct dlk_timer *timer, int64_t sent) {
  struct call *c = DLK_CONTAINER(timer, struct call, timer);
  if (!unlucky(c->s)) {
    if (!lock(c->s)) {
      finish_code(c, DLK_UNAVAILABLE);
      return;
    }
    enum dlk_code answer = serve(c, sent);
    unlock(c->s);
    if (!unlucky(c->s)) {
      take(c, answer, sent);
      return;
    }
    dlk_value_free(c->op->result);
    c->op->result = NULL;
  }
  set(c->s, timer, AGAIN);
}

/* Says what this store cannot do. */
static void check(const struct dlk_op *op, struct dlk_error *err) {
  if (op->kind == DLK_OP_ACQUIRE && op->lease->value_len > VALUE_MAX)
    dlk_error_set(err, DLK_INVALID, "values have at most %d bytes", VALUE_MAX);
  else if (op->kind == DLK_OP_LIST && op->text_len > 0 &&
           (op->text_len > 4 || strspn(op->text, "0123456789") != op->text_len))
    err->code = DLK_INVALID;
  else if (op->kind == DLK_OP_GUARD)
    dlk_error_set(err, DLK_UNSUPPORTED,
                  "no data is in this store; check the fence where it is");
}

static void submit(void *store, struct dlk_op *op) {
  struct call *c = op->data;
  struct store *s = store;
  struct dlk_error err = {.code = DLK_OK};
  size_t n = strlen(s->prefix);
  c->s = s;
  c->op = op;
  c->timer.fire = ask;
  s->host->random(s->host, &c->number, sizeof c->number);
  dlk_list_append(&s->ops, &c->link);
  memcpy(c->key.bytes, s->prefix, n);
  memcpy(c->key.bytes + n, op->key, op->key_len);
  c->key.len = n + op->key_len;
  check(op, &err);
  if (err.code != DLK_OK) {
    finish(c, &err);
    return;
  }
  if (op->kind == DLK_OP_ACQUIRE) {
    struct hold *h = op->lease->data;
    h->s = s;
    dlk_list_init(&h->link);
    s->host->random(s->host, &h->id, sizeof h->id);
  } else if (op->kind == DLK_OP_RELEASE) {
    let_go(op->lease->data);
  }
  ask(&c->timer, s->host->now(s->host));
}

/* The others are asked again in a moment, and end. */
static void cancel(void *store, struct dlk_op *op) {
  struct call *c = op->data;
  struct store *s = store;
  if (op->kind == DLK_OP_ACQUIRE) {
    c->leaves = true;
    ask(&c->timer, s->host->now(s->host));
  } else if (op->kind == DLK_OP_CHANGE) {
    finish_code(c, op->ending);
  }
}

static void renew(void *store, struct dlk_lease *const *leases, size_t count) {
  struct store *s = store;
  for (size_t i = 0; i < count; i++) {
    int64_t now = s->host->now(s->host);
    bool asked = !unlucky(s) && lock(s);
    struct slot *a = asked ? held(s, leases[i], now) : NULL;
    if (a != NULL)
      a->ends = dlk_time_add(now, leases[i]->ttl);
    if (asked)
      unlock(s);
    if (!asked || unlucky(s))
      s->host->renew_failed(s->host, leases[i]);
    else if (a != NULL)
      s->host->renewed(s->host, leases[i], now);
    else
      lost(leases[i]);
  }
}

static void stop(void *store) {
  struct store *s = store;
  bool locked = lock(s);
  while (!dlk_list_empty(&s->ops)) {
    struct call *c = DLK_CONTAINER(s->ops.next, struct call, link);
    struct slot *a =
        locked && c->op->kind == DLK_OP_ACQUIRE ? entry(s, c->op->lease) : NULL;
    if (a != NULL)
      drop(s->t, a, s->host->now(s->host));
    finish_code(c, DLK_CLOSED);
  }
  while (!dlk_list_empty(&s->holds))
    let_go(DLK_CONTAINER(s->holds.next, struct hold, link));
  if (locked)
    unlock(s);
  if (s->t != NULL)
    munmap(s->t, sizeof *s->t);
  if (s->fd >= 0)
    close(s->fd);
  s->fd = -1;
  s->t = NULL;
  s->host->stopped(s->host);
}

static const char *prefix(const char *given) {
  return given != NULL ? given : "dlock:";
}

static void destroy(void *store) {
  struct store *s = store;
  free(s->path);
  free(s->prefix);
  free(s);
}

static enum dlk_code create(struct dlk_host *host, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  static const char *const none[] = {NULL};
  enum dlk_code code = dlk_option_check(&conf->options, none, conf->shown, err);
  if (code != DLK_OK)
    return code;
  if (strlen(conf->prefix) > PREFIX_MAX)
    return dlk_error_set(err, DLK_INVALID, "the prefix has more than %d bytes",
                         PREFIX_MAX);
  struct store *s = calloc(1, sizeof *s);
  if (s == NULL)
    return dlk_error_set(err, DLK_UNAVAILABLE, "out of memory");
  s->host = host;
  s->fd = -1;
  s->path = strdup(conf->path);
  s->prefix = strdup(conf->prefix);
  dlk_list_init(&s->ops);
  dlk_list_init(&s->holds);
  *out = s;
  return DLK_OK;
}

static const struct dlk_store_type model = {
    .abi = DLK_STORE_ABI,
    .name = "model",
    .op_size = sizeof(struct call),
    .lease_size = sizeof(struct hold),
    .prefix = prefix,
    .create = create,
    .submit = submit,
    .cancel = cancel,
    .renew = renew,
    .stop = stop,
    .destroy = destroy,
};

__attribute__((visibility("default"))) int luaopen_model_store(lua_State *L);

int luaopen_model_store(lua_State *L) {
  return dlk_lua_push_store(L, &model);
}
