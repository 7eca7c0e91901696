/* Looking: inspect and list. Neither changes anything, so a request whose
 * reply was lost is simply sent once more.
 *
 * inspect is one script, so what it shows stood on the server at one moment.
 * list walks the database with SCAN: first the names that hold our tokens,
 * then the queues whose lock is free at the moment. A step looks at a bounded
 * number of names, and a page takes a bounded number of steps, so a page may
 * be empty, or somewhat longer than was asked for; a key that is held all the
 * while is never missed, one may come twice (SCAN's own promise).
 *
 * The cursor: 'k' or 'q' (which of the two walks), and SCAN's number. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/redis/op/machine.h"

#define STEPS 100 /* of one page */
#define LOOKED_AT 1000

static struct dlk_redis_try *try_of(struct dlk_redis_call *call) {
  return DLK_CONTAINER(call, struct dlk_redis_try, call);
}

void dlk_redis_finish(struct dlk_redis_try *t, struct dlk_value *v) {
  struct dlk_error err;
  t->op->result = v;
  if (!v)
    dlk_error_set(&err, DLK_UNAVAILABLE, "out of memory");
  dlk_redis_done(t, v ? NULL : &err);
}

bool dlk_redis_failed(struct dlk_redis_try *t,
                      const struct dlk_redis_result *r) {
  if (r->verdict == DLK_REDIS_GOOD) {
    t->answered = true;
    return false;
  }
  dlk_redis_trouble(t, r->err);
  bool again = r->verdict == DLK_REDIS_UNSURE && !t->unsure &&
               t->op->ending == DLK_OK && !t->store->stopping;
  t->unsure = true;
  if (again)
    dlk_redis_call_send(&t->call);
  else
    dlk_redis_done(t, r->err);
  return true;
}

static void odd(struct dlk_redis_try *t) {
  struct dlk_error err;
  dlk_redis_odd(t->store, &err);
  dlk_redis_done(t, &err);
}

/* ---- inspect ---- */

static const redisReply *at(const redisReply *list, size_t i) {
  static const redisReply none = {.type = REDIS_REPLY_NIL};
  return i < list->elements ? list->element[i] : &none;
}

static struct dlk_value *ms(int64_t n) {
  return dlk_value_number((double)n / 1000);
}

/* Our token's owner, or what a foreign client wrote. */
static struct dlk_value *owner(const redisReply *token) {
  char text[DLK_HOLDER_MAX];
  if (token->type != REDIS_REPLY_STRING)
    return dlk_value_string("", 0);
  dlk_redis_holder_text(text, token->str, token->len);
  if (strcmp(text, "another client") == 0) {
    size_t n = token->len;
    if (n > DLK_REDIS_OWNER_MAX)
      n = DLK_REDIS_OWNER_MAX;
    for (size_t i = 0; i < n; i++)
      text[i] =
          token->str[i] < ' ' || token->str[i] > '~' ? '?' : token->str[i];
    text[n] = '\0';
  }
  return dlk_value_string(text, strlen(text));
}

/* One of ours. The counter of a hold that was not written down yet may have
 * been raised by others since, or be missing. `hold` is for elections. */
static struct dlk_value *known(struct dlk_value *v, const redisReply *token,
                               const char *fence, bool noted) {
  char digits[DLK_REDIS_ID + 1] = "";
  int64_t n = strtoll(fence, NULL, 10);
  if (token->type == REDIS_REPLY_STRING && token->len > DLK_REDIS_ID)
    memcpy(digits, token->str, DLK_REDIS_ID);
  int64_t id = strtoll(digits, NULL, 16);
  v = dlk_value_set(v, "hold", dlk_value_int(DLK_REDIS_ID_FIRST - id));
  if (!noted && n < DLK_REDIS_FENCE_SEEDED)
    return v;
  v = dlk_value_set(v, "fence", dlk_value_int(n));
  return noted ? v : dlk_value_set(v, "fence_at_most", dlk_value_bool(true));
}

/* token, units, ms left, fence, ms held, value */
static struct dlk_value *holder(const redisReply *list, size_t i) {
  struct dlk_value *v = dlk_value_map();
  const redisReply *fence = at(list, i + 3), *value = at(list, i + 5);
  int64_t units = dlk_redis_int(list, i + 1, 0);
  int64_t left = dlk_redis_int(list, i + 2, -1);
  int64_t held = dlk_redis_int(list, i + 4, -1);
  v = dlk_value_set(v, "owner", owner(at(list, i)));
  if (fence->type == REDIS_REPLY_STRING && fence->len > 0)
    v = known(v, at(list, i), fence->str, held >= 0);
  if (left >= 0)
    v = dlk_value_set(v, "ttl", ms(left));
  if (held >= 0)
    v = dlk_value_set(v, "since", ms(held));
  if (units > 0)
    v = dlk_value_set(v, "permits", dlk_value_int(units));
  if (value->type == REDIS_REPLY_STRING && value->len > 0)
    v = dlk_value_set(v, "value", dlk_value_string(value->str, value->len));
  return v;
}

static struct dlk_value *word(const char *text) {
  return dlk_value_string(text, strlen(text));
}

static const char *mode(int64_t units, int64_t cap) {
  return units == 0 ? "exclusive" : cap == 0 ? "shared" : "semaphore";
}

/* token, units, cap, ms waited */
static struct dlk_value *waiter(const redisReply *list, size_t i) {
  struct dlk_value *v = dlk_value_map();
  int64_t units = dlk_redis_int(list, i + 1, 0);
  int64_t cap = dlk_redis_int(list, i + 2, 0);
  v = dlk_value_set(v, "owner", owner(at(list, i)));
  v = dlk_value_set(v, "mode", word(mode(units, cap)));
  if (cap > 0)
    v = dlk_value_set(v, "permits", dlk_value_int(units));
  return dlk_value_set(v, "waited", ms(dlk_redis_int(list, i + 3, 0)));
}

static struct dlk_value *each(const redisReply *list, size_t width,
                              struct dlk_value *(*one)(const redisReply *,
                                                       size_t)) {
  struct dlk_value *v = dlk_value_list();
  for (size_t i = 0; i + width <= list->elements; i += width)
    v = dlk_value_add(v, one(list, i));
  return v;
}

static struct dlk_value *show(const struct dlk_op *op, const redisReply *r) {
  struct dlk_value *v = dlk_value_map();
  const redisReply *holders = at(r, 2), *kind = at(r, 0);
  bool shared = kind->type == REDIS_REPLY_STRING && kind->str[0] == 's';
  int64_t cap = dlk_redis_int(r, 1, 0);
  v = dlk_value_set(v, "key", dlk_value_string(op->key, op->key_len));
  if (holders->elements > 0)
    v = dlk_value_set(v, "mode", word(mode(shared ? 1 : 0, cap)));
  if (cap > 0)
    v = dlk_value_set(v, "permits", dlk_value_int(cap));
  v = dlk_value_set(v, "holders", each(holders, 6, holder));
  return dlk_value_set(v, "waiters", each(at(r, 3), 4, waiter));
}

static void inspected(struct dlk_redis_call *call,
                      const struct dlk_redis_result *r) {
  struct dlk_redis_try *t = try_of(call);
  if (dlk_redis_failed(t, r))
    return;
  if (r->reply->type == REDIS_REPLY_NIL)
    dlk_redis_finish(t, dlk_value_nil());
  else if (r->reply->type == REDIS_REPLY_ARRAY && r->reply->elements == 4 &&
           r->reply->element[2]->type == REDIS_REPLY_ARRAY &&
           r->reply->element[3]->type == REDIS_REPLY_ARRAY)
    dlk_redis_finish(t, show(t->op, r->reply));
  else
    odd(t);
}

void dlk_redis_inspect(struct dlk_redis_try *t) {
  t->call.args = NULL;
  t->call.answer = inspected;
  dlk_redis_call_script(&t->call, DLK_REDIS_LOOK);
}

/* ---- list ---- */

/* t->order is the cursor as it is shown: 'k' or 'q', then SCAN's. */

/* The bytes as a glob that matches nothing else. */
static void put_glob(struct dlk_buf *out, const char *p, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (p[i] && strchr("*?[]\\", p[i]))
      dlk_buf_add(out, "\\", 1);
    dlk_buf_add(out, p + i, 1);
  }
}

static void list_args(struct dlk_redis_call *call, struct dlk_buf *out) {
  struct dlk_redis_try *t = try_of(call);
  const struct dlk_op *op = t->op;
  bool queues = t->order[0] == 'q';
  struct dlk_buf glob = {0};
  size_t n = op->limit > 0 && op->limit < LOOKED_AT ? op->limit : LOOKED_AT;
  if (queues)
    dlk_buf_addf(&glob, DLK_REDIS_RESERVED "{??????}:q:");
  put_glob(&glob, t->store->prefix, strlen(t->store->prefix));
  put_glob(&glob, op->key, op->key_len);
  dlk_buf_add(&glob, "*", 1);
  dlk_redis_put_text(out, queues ? "queues" : "locks");
  dlk_redis_put_text(out, t->order + 1);
  dlk_redis_put(out, glob.data, glob.len);
  dlk_redis_put_int(out, (int64_t)n);
  out->failed = out->failed || glob.failed;
  dlk_buf_free(&glob);
}

/* Adds what belongs to our prefix; returns how many. */
static size_t collect(struct dlk_redis_try *t, const redisReply *names) {
  size_t before = strlen(t->store->prefix), n = 0;
  for (size_t i = 0; i < names->elements; i++) {
    const redisReply *name = names->element[i];
    if (name->type != REDIS_REPLY_STRING || name->len <= before ||
        memcmp(name->str, t->store->prefix, before) != 0)
      continue;
    t->op->result =
        dlk_value_add(t->op->result,
                      dlk_value_string(name->str + before, name->len - before));
    n++;
  }
  return n;
}

static void list_end(struct dlk_redis_try *t, bool last) {
  struct dlk_value *keys = t->op->result, *v = dlk_value_tuple();
  t->op->result = NULL;
  v = dlk_value_add(v, keys);
  v = dlk_value_add(v, last ? dlk_value_nil()
                            : dlk_value_string(t->order, strlen(t->order)));
  dlk_redis_finish(t, v);
}

static void listed(struct dlk_redis_call *call,
                   const struct dlk_redis_result *r) {
  struct dlk_redis_try *t = try_of(call);
  if (dlk_redis_failed(t, r))
    return;
  const redisReply *next = at(r->reply, 0), *names = at(r->reply, 1);
  if (r->reply->type != REDIS_REPLY_ARRAY || r->reply->elements != 2 ||
      next->type != REDIS_REPLY_STRING || next->len > 20 ||
      names->type != REDIS_REPLY_ARRAY) {
    odd(t);
    return;
  }
  size_t found = collect(t, names);
  bool over = strcmp(next->str, "0") == 0;
  bool last = over && t->order[0] == 'q';
  char walk = over ? 'q' : t->order[0];
  snprintf(t->order, sizeof t->order, "%c%s", walk, next->str);
  t->rank++;
  if (last || found > 0 || t->rank >= STEPS || !t->op->result ||
      t->op->ending != DLK_OK) {
    list_end(t, last);
    return;
  }
  t->unsure = false;
  dlk_redis_call_script(&t->call, DLK_REDIS_LIST);
}

/* A cursor comes from outside. */
static bool cursor(struct dlk_redis_try *t) {
  const struct dlk_op *op = t->op;
  if (!op->text || op->text_len == 0) {
    snprintf(t->order, sizeof t->order, "k0");
    return true;
  }
  if (op->text_len < 2 || op->text_len > 20 || /* a larger number is none */
      (op->text[0] != 'k' && op->text[0] != 'q') ||
      strspn(op->text + 1, "0123456789") != op->text_len - 1)
    return false;
  memcpy(t->order, op->text, op->text_len);
  t->order[op->text_len] = '\0';
  return true;
}

void dlk_redis_list(struct dlk_redis_try *t) {
  struct dlk_error err;
  if (!cursor(t)) {
    dlk_error_set(&err, DLK_INVALID,
                  "the cursor is not one that store:list gave");
    dlk_redis_done(t, &err);
    return;
  }
  t->op->result = dlk_value_list();
  t->call.args = list_args;
  t->call.answer = listed;
  dlk_redis_call_script(&t->call, DLK_REDIS_LIST);
}
