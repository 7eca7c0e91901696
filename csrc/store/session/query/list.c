/* list: names below the prefix, in order, and whether each has contenders (an
 * empty folder may stay). The cursor is '/' and the last name looked at, so it
 * survives changes; '/' is in no name. */
#include "store/session/query/query.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

bool dlk_ss_list_cursor_ok(const struct dlk_op *op) {
  struct dlk_buf key = {0};
  bool ok = op->text_len == 0 ||
            (op->text[0] == '/' && strlen(op->text) == op->text_len &&
             dlk_ss_unescape(&key, op->text + 1));
  dlk_buf_free(&key);
  return ok;
}

static bool wanted(const struct dlk_ss_query *q, const char *name) {
  const struct dlk_op *op = q->op;
  struct dlk_buf key = {0};
  bool after = op->text_len == 0 || strcmp(name, op->text + 1) > 0;
  bool ok = after && dlk_ss_unescape(&key, name) && !key.failed &&
            key.len >= op->key_len &&
            (op->key_len == 0 || memcmp(key.data, op->key, op->key_len) == 0);
  dlk_buf_free(&key);
  return ok;
}

/* The page's names move to the front. True: there are more. */
static bool choose(struct dlk_ss_query *q) {
  size_t limit = q->op->limit;
  size_t to = 0;
  if (limit == 0 || limit > DLK_PAGE_MAX)
    limit = DLK_PAGE_MAX;
  if (q->count > 1)
    qsort(q->names, q->count, sizeof *q->names, by_name);
  for (size_t i = 0; i < q->count; i++) {
    if (!wanted(q, q->names[i]))
      continue;
    if (to == limit) {
      q->count = to;
      return true;
    }
    q->names[to++] = q->names[i];
  }
  q->count = to;
  return false;
}

/* Names without contenders have no units. */
static void finish(struct dlk_ss_query *q) {
  struct dlk_value *keys = dlk_value_list();
  for (size_t i = 0; i < q->count; i++) {
    struct dlk_buf key = {0};
    if (q->queue.at[i].units == 0)
      continue;
    dlk_ss_unescape(&key, q->names[i]);
    keys = dlk_value_add(
        keys, key.failed ? NULL : dlk_value_string(key.data, key.len));
    dlk_buf_free(&key);
  }
  struct dlk_buf last = {0};
  if (q->any)
    dlk_buf_addf(&last, "/%s", q->names[q->count - 1]);
  struct dlk_value *v = dlk_value_add(dlk_value_tuple(), keys);
  v = dlk_value_add(v, last.failed ? NULL
                       : q->any    ? dlk_value_string(last.data, last.len)
                                   : dlk_value_nil());
  dlk_buf_free(&last);
  dlk_ss_query_finish(q, v);
}

static void on_stat(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  bool used = r->rc == DLK_SS_OK && r->stat.children > 0;
  q->queue.at[q->count - q->pending].units = used;
  if (--q->pending == 0)
    finish(q);
}

static bool look_at_all(struct dlk_ss_query *q) {
  size_t base = strlen(q->store->base); /* path begins with it */
  q->queue.at = calloc(q->count, sizeof *q->queue.at);
  q->pending = q->count;
  bool ok = q->queue.at != NULL;
  for (size_t i = 0; ok && i < q->count; i++) {
    struct dlk_ss_request r = {.verb = DLK_SS_COUNT};
    r.path = dlk_ss_path(&q->path, base, q->names[i]);
    ok = r.path && dlk_ss_query_send(q, DLK_SS_FOR_READ, &r, on_stat);
  }
  return ok;
}

static void on_names(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  bool ok = r->rc != DLK_SS_OK || dlk_ss_query_keep(q, r);
  q->any = ok && choose(q);
  if (ok && q->count == 0)
    finish(q);
  else if (!ok || !look_at_all(q))
    dlk_ss_query_end(q, DLK_UNAVAILABLE, NULL);
}

bool dlk_ss_list_start(struct dlk_ss_query *q) {
  return dlk_ss_query_list(q, q->store->base, on_names);
}
