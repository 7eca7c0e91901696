/* list: the names below the prefix, in order, and for each of a page whether
 * it has contenders (an empty container stays for a minute). The cursor is the
 * last name that was looked at, so it stays right whatever comes and goes. */
#include "store/zookeeper/query/query.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_MAX 1000

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool wanted(const struct dlk_zk_ask *a, const char *name) {
  const struct dlk_op *op = a->op;
  struct dlk_buf key = {0};
  bool after = !op->text || strcmp(name, op->text) > 0;
  bool ok = after && dlk_zk_unescape(&key, name) && !key.failed &&
            key.len >= op->key_len &&
            (op->key_len == 0 || memcmp(key.data, op->key, op->key_len) == 0);
  dlk_buf_free(&key);
  return ok;
}

/* The page's names move to the front; true when there are more. */
static bool choose(struct dlk_zk_ask *a) {
  size_t limit = a->op->limit;
  size_t to = 0;
  if (limit == 0 || limit > PAGE_MAX)
    limit = PAGE_MAX;
  if (a->count > 1)
    qsort(a->names, a->count, sizeof *a->names, by_name);
  for (size_t i = 0; i < a->count; i++) {
    if (!wanted(a, a->names[i]))
      continue;
    if (to == limit) {
      a->count = to;
      return true;
    }
    a->names[to++] = a->names[i];
  }
  a->count = to;
  return false;
}

/* Names without contenders were emptied as the answers came. */
static void finish(struct dlk_zk_ask *a) {
  struct dlk_value *keys = dlk_value_list();
  for (size_t i = 0; i < a->count; i++) {
    struct dlk_buf key = {0};
    if (a->queue.at[i].units == 0)
      continue;
    dlk_zk_unescape(&key, a->names[i]);
    keys = dlk_value_add(
        keys, key.failed ? NULL : dlk_value_string(key.data, key.len));
    dlk_buf_free(&key);
  }
  const char *last = a->any ? a->names[a->count - 1] : NULL;
  struct dlk_value *v = dlk_value_add(dlk_value_tuple(), keys);
  v = dlk_value_add(v, last ? dlk_value_string(last, strlen(last))
                            : dlk_value_nil());
  dlk_zk_ask_end(a, v ? DLK_OK : DLK_UNAVAILABLE, v);
}

static void on_stat(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
  struct dlk_zk_ask *a = who;
  if (!dlk_zk_ask_answered(a, tag, r))
    return;
  bool used = r->rc == DLK_ZK_OK && r->stat.children > 0;
  a->queue.at[a->count - a->pending].units = used;
  if (--a->pending == 0)
    finish(a);
}

static bool look_at_all(struct dlk_zk_ask *a) {
  size_t base = strlen(a->store->base); /* a->path begins with it */
  a->queue.at = calloc(a->count, sizeof *a->queue.at);
  if (!a->queue.at)
    return false;
  a->pending = a->count;
  for (size_t i = 0; i < a->count; i++) {
    struct dlk_zk_request r = {.verb = DLK_ZK_EXISTS_VERB};
    r.path = dlk_zk_path(&a->path, base, a->names[i]);
    if (!r.path || !dlk_zk_ask_send(a, &r, on_stat))
      return false;
  }
  return true;
}

static void on_names(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
  struct dlk_zk_ask *a = who;
  if (!dlk_zk_ask_answered(a, tag, r))
    return;
  if (r->rc != DLK_ZK_OK && r->rc != DLK_ZK_NONODE) {
    dlk_zk_ask_end(a, dlk_zk_code(r->rc), NULL);
    return;
  }
  if (r->rc == DLK_ZK_OK && !dlk_zk_ask_keep(a, r)) {
    dlk_zk_ask_end(a, DLK_UNAVAILABLE, NULL);
    return;
  }
  a->any = choose(a);
  if (a->count == 0)
    finish(a);
  else if (!look_at_all(a))
    dlk_zk_ask_end(a, DLK_UNAVAILABLE, NULL);
}

bool dlk_zk_list_start(struct dlk_zk_ask *a) {
  struct dlk_zk_request r = {.verb = DLK_ZK_CHILDREN, .path = a->store->base};
  return dlk_zk_ask_send(a, &r, on_names);
}
