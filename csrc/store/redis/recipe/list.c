/* Listing by SCAN: the names that hold our tokens, then the queues of free
 * locks. A step looks at a bounded number of names. A page takes steps until it
 * is full, or both walks are over; it ends sooner after STEPS, or in the middle
 * of its time. So it may be empty, or somewhat longer than asked for. A key
 * that is held all the while is not missed, and may come twice (SCAN's
 * promise).
 *
 * The cursor: 'k' or 'q' (the walk), and SCAN's number. In a cluster each node
 * is walked, in the order of their ids; '@' and the node's id follow. A key
 * that moves to a node that was walked is missed. */
#include "store/redis/recipe/list.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "store/redis/wire/codec.h"
#include "store/redis/wire/reply.h"

#define STEPS 100 /* of one page */

/* The bytes as a glob that matches nothing else. */
static void put_glob(struct dlk_buf *out, const char *p, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (p[i] && strchr("*?[]\\", p[i]))
      dlk_buf_add(out, "\\", 1);
    dlk_buf_add(out, p + i, 1);
  }
}

static void args(struct dlk_redis_try *t, struct dlk_buf *out) {
  const struct dlk_op *op = t->op;
  bool queues = t->list.cursor[0] == 'q';
  struct dlk_buf glob = {0};
  size_t n =
      op->limit > 0 && op->limit < DLK_PAGE_MAX ? op->limit : DLK_PAGE_MAX;
  if (queues)
    dlk_buf_addf(&glob, DLK_REDIS_RESERVED "{??????}:q:");
  put_glob(&glob, t->store->names.prefix, t->store->names.prefix_len);
  put_glob(&glob, op->key, op->key_len);
  dlk_buf_add(&glob, "*", 1);
  dlk_redis_put_text(out, queues ? "queues" : "locks");
  dlk_redis_put_text(out, t->list.cursor + 1);
  dlk_redis_put(out, glob.data, glob.len);
  dlk_redis_put_int(out, (int64_t)n);
  out->failed = out->failed || glob.failed;
  dlk_buf_free(&glob);
}

/* Adds what belongs to our prefix; returns how many. */
static size_t collect(struct dlk_redis_try *t, const redisReply *names) {
  size_t before = t->store->names.prefix_len, n = 0;
  for (size_t i = 0; i < names->elements; i++) {
    const redisReply *name = names->element[i];
    if (name->type != REDIS_REPLY_STRING || name->len <= before ||
        memcmp(name->str, t->store->names.prefix, before) != 0)
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
  char cursor[sizeof t->list.cursor + sizeof t->list.node + 1];
  snprintf(cursor, sizeof cursor, "%s%s%s", t->list.cursor,
           t->list.node[0] ? "@" : "", t->list.node);
  t->op->result = NULL;
  v = dlk_value_add(v, keys);
  v = dlk_value_add(v, last ? dlk_value_nil()
                            : dlk_value_string(cursor, strlen(cursor)));
  dlk_redis_finish(t, v);
}

/* No more steps for this page: it is full, or they take too long. */
static bool is_enough(const struct dlk_redis_try *t) {
  const struct dlk_op *op = t->op;
  int64_t half = op->started + (op->deadline - op->started) / 2;
  size_t most = op->limit > 0 ? op->limit : DLK_PAGE_MAX;
  return t->list.found >= most || t->list.steps >= STEPS ||
         dlk_redis_now(t->store) >= half;
}

static const struct dlk_redis_step listing;

static void listed(struct dlk_redis_try *t, const redisReply *reply) {
  const redisReply *next = dlk_redis_at(reply, 0);
  const redisReply *names = dlk_redis_at(reply, 1);
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
      next->type != REDIS_REPLY_STRING || next->len > 20 ||
      names->type != REDIS_REPLY_ARRAY) {
    dlk_redis_done_odd(t);
    return;
  }
  t->list.found += collect(t, names);
  bool over = strcmp(next->str, "0") == 0;
  bool last = over && t->list.cursor[0] == 'q';
  char walk = over ? 'q' : t->list.cursor[0];
  struct dlk_redis_link *link = t->store->link;
  if (last && link->next_node && link->next_node(link, t->list.node)) {
    last = false;
    walk = 'k';
  }
  snprintf(t->list.cursor, sizeof t->list.cursor, "%c%s", walk, next->str);
  t->list.steps++;
  if (last || is_enough(t) || !t->op->result || t->op->ending != DLK_OK) {
    list_end(t, last);
    return;
  }
  t->unsure = false;
  dlk_redis_send(t, &listing);
}

static const struct dlk_redis_step listing = {.aim = DLK_REDIS_TO_READ,
                                              .script = DLK_REDIS_LIST,
                                              .args = args,
                                              .answer = listed};

/* A cursor comes from outside. */
static bool cursor(struct dlk_redis_try *t) {
  const struct dlk_op *op = t->op;
  if (!op->text || op->text_len == 0) {
    snprintf(t->list.cursor, sizeof t->list.cursor, "k0");
    return true;
  }
  bool routed = t->store->link->next_node != NULL;
  const char *at = memchr(op->text, '@', op->text_len);
  size_t len = at ? (size_t)(at - op->text) : op->text_len;
  size_t id = at ? op->text_len - len - 1 : 0;
  if (len < 2 || len > 20 || /* a larger number is none */
      (op->text[0] != 'k' && op->text[0] != 'q') ||
      strspn(op->text + 1, "0123456789") < len - 1 ||
      id != (routed ? sizeof t->list.node - 1 : 0) || routed != (at != NULL))
    return false;
  memcpy(t->list.cursor, op->text, len);
  t->list.cursor[len] = '\0';
  if (at)
    memcpy(t->list.node, at + 1, id);
  return true;
}

void dlk_redis_list(struct dlk_redis_try *t) {
  if (!cursor(t)) {
    dlk_redis_done_code(t, DLK_INVALID);
    return;
  }
  t->op->result = dlk_value_list();
  if (t->store->link->next_node) {
    t->call.req.slot = DLK_REDIS_BY_NODE;
    t->call.req.node = t->list.node;
  }
  dlk_redis_send(t, &listing);
}
