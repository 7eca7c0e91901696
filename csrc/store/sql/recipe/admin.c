/* Looking and mending. A read is one statement, so what it shows stood there at
 * one moment. */
#include <stdio.h>
#include <stdlib.h>

#include "store/kit/shown.h"
#include "store/sql/recipe/recipe.h"

static void key_put(struct dlk_sql_try *t, struct dlk_sql_call *call) {
  dlk_sql_put_key(call, t->store, t->op->key, t->op->key_len);
}

static double seconds(int64_t us) {
  return us < 0 ? -1 : (double)us / 1e6;
}

static struct dlk_value *bytes(const struct dlk_sql_call *call, size_t row,
                               size_t column) {
  size_t n;
  const char *p = dlk_sql_bytes(call, row, column, &n);
  return dlk_value_string(p ? p : "", n);
}

/* ---- ping ---- */

static void pinged(struct dlk_sql_try *t, const struct dlk_sql_call *call) {
  int64_t took = dlk_sql_now(t->store) - call->sent;
  dlk_sql_finish(t, dlk_value_number((double)took / (double)DLK_SEC));
}

static const struct dlk_sql_step pinging = {
    .statement = DLK_SQL_PING, .worker = DLK_SQL_A, .answer = pinged};

void dlk_sql_ping(struct dlk_sql_try *t) {
  dlk_sql_send(t, &pinging);
}

/* ---- locked, change ---- */

static void looked(struct dlk_sql_try *t, const struct dlk_sql_call *call) {
  size_t n = 0;
  const char *owner = dlk_sql_bytes(call, 0, 1, &n);
  n = n < DLK_HOLDER_MAX ? n : DLK_HOLDER_MAX - 1;
  if (owner)
    memcpy(t->op->holder, owner, n);
  t->op->holder[n] = '\0';
  dlk_sql_finish(t, dlk_value_bool(call->rows > 0));
}

static const struct dlk_sql_step looking = {.statement = DLK_SQL_LOOK,
                                            .worker = DLK_SQL_A,
                                            .put = key_put,
                                            .answer = looked};

void dlk_sql_locked(struct dlk_sql_try *t) {
  dlk_sql_send(t, &looking);
}

#define CHANGE_FIRST (100 * DLK_MS)

/* Asks about once a second, and more often in the first one. */
static void watched(struct dlk_sql_try *t, const struct dlk_sql_call *call) {
  int64_t now = dlk_sql_now(t->store), waited = now - t->since;
  int64_t beat = waited < DLK_SEC ? CHANGE_FIRST : DLK_SEC;
  int64_t ends = dlk_sql_number(call, 0, 2, -1);
  if (dlk_sql_number(call, 0, 0, 0) != t->op->fence) {
    dlk_sql_finish(t, dlk_value_bool(true));
    return;
  }
  if (t->op->ending != DLK_OK) {
    dlk_sql_give_up(t);
    return;
  }
  if (ends >= 0 && ends * DLK_US + DLK_MS < beat)
    beat = ends * DLK_US + DLK_MS;
  dlk_sql_send_at(t, DLK_SQL_WAITING, now + beat);
}

static const struct dlk_sql_step watching = {.statement = DLK_SQL_LOOK,
                                             .worker = DLK_SQL_A,
                                             .put = key_put,
                                             .answer = watched};

void dlk_sql_change(struct dlk_sql_try *t) {
  t->since = dlk_sql_now(t->store);
  dlk_sql_send(t, &watching);
}

/* ---- inspect ---- */

/* what, units, cap, fence, rest, age, owner, value */
static struct dlk_value *holder(const struct dlk_sql_call *call, size_t row,
                                struct dlk_want want) {
  struct dlk_value *v = dlk_shown_holder(
      bytes(call, row, 6), want, dlk_sql_number(call, row, 3, 0),
      seconds(dlk_sql_number(call, row, 4, -1)),
      seconds(dlk_sql_number(call, row, 5, -1)));
  size_t n;
  const char *value = dlk_sql_bytes(call, row, 7, &n);
  return value && n > 0 ? dlk_value_set(v, "value", dlk_value_string(value, n))
                        : v;
}

static void inspected(struct dlk_sql_try *t, const struct dlk_sql_call *call) {
  struct dlk_value *holders = dlk_value_list(), *waiters = dlk_value_list();
  struct dlk_want first = {0, 0};
  bool held = false;
  for (size_t row = 0; row < call->rows; row++) {
    bool holds = dlk_sql_number(call, row, 0, 0) == 0;
    struct dlk_want want = {(uint32_t)dlk_sql_number(call, row, 1, 0),
                            (uint32_t)dlk_sql_number(call, row, 2, 0)};
    if (row == 0) {
      first = want;
      held = holds;
    }
    if (holds)
      holders = dlk_value_add(holders, holder(call, row, want));
    else
      waiters = dlk_value_add(
          waiters, dlk_shown_waiter(bytes(call, row, 6), want,
                                    seconds(dlk_sql_number(call, row, 5, -1))));
  }
  if (call->rows > 0) {
    dlk_sql_finish(t, dlk_shown_key(t->op, first, held, holders, waiters));
    return;
  }
  dlk_value_free(holders);
  dlk_value_free(waiters);
  dlk_sql_finish(t, dlk_value_nil());
}

static const struct dlk_sql_step inspecting = {.statement = DLK_SQL_INSPECT,
                                               .worker = DLK_SQL_A,
                                               .put = key_put,
                                               .answer = inspected};

void dlk_sql_inspect(struct dlk_sql_try *t) {
  dlk_sql_send(t, &inspecting);
}

/* ---- list ---- */

static size_t limit_of(const struct dlk_op *op) {
  return op->limit > 0 && op->limit < DLK_PAGE_MAX ? op->limit : DLK_PAGE_MAX;
}

/* The cursor: '=' and the last name's digits. */
static bool read_cursor(const struct dlk_op *op, struct dlk_buf *out) {
  const char *p = op->text;
  if (!p || op->text_len == 0)
    return true;
  if (*p != '=' || op->text_len % 2 == 0 || op->text_len < 3)
    return false;
  for (size_t i = 1; i + 1 < op->text_len; i += 2) {
    char pair[3] = {p[i], p[i + 1], '\0'}, *end;
    unsigned char byte = (unsigned char)strtoul(pair, &end, 16);
    if (end != pair + 2 || pair[0] == '-' || pair[0] == '+' || pair[0] == ' ')
      return false;
    dlk_buf_add(out, &byte, 1);
  }
  return !out->failed;
}

/* Behind all names that begin so: the last byte below 255 counts up. */
static void put_end(struct dlk_sql_call *call, const char *p, size_t n) {
  struct dlk_buf end = {0};
  while (n > 0 && (unsigned char)p[n - 1] == 255)
    n--;
  if (n == 0) {
    dlk_sql_put_null(call);
    return;
  }
  dlk_buf_add(&end, p, n);
  if (!end.failed)
    end.data[n - 1] = (char)((unsigned char)end.data[n - 1] + 1);
  dlk_sql_put_bytes(call, end.data, end.len);
  call->failed = call->failed || end.failed;
  dlk_buf_free(&end);
}

static void list_put(struct dlk_sql_try *t, struct dlk_sql_call *call) {
  struct dlk_buf from = {0}, behind = {0};
  dlk_buf_add(&from, t->store->prefix, strlen(t->store->prefix));
  dlk_buf_add(&from, t->op->key, t->op->key_len);
  (void)read_cursor(t->op, &behind);
  dlk_sql_put_bytes(call, from.data, from.len);
  dlk_sql_put_bytes(call, behind.data, behind.len);
  put_end(call, from.data, from.len);
  dlk_sql_put_number(call, (int64_t)limit_of(t->op));
  call->failed = call->failed || from.failed || behind.failed;
  dlk_buf_free(&from);
  dlk_buf_free(&behind);
}

static void listed(struct dlk_sql_try *t, const struct dlk_sql_call *call) {
  struct dlk_value *keys = dlk_value_list(), *cursor = NULL;
  size_t skip = strlen(t->store->prefix), n = 0;
  const char *p = NULL;
  for (size_t row = 0; row < call->rows; row++) {
    p = dlk_sql_bytes(call, row, 0, &n);
    if (p && n > skip)
      keys = dlk_value_add(keys, dlk_value_string(p + skip, n - skip));
  }
  if (p && call->rows >= limit_of(t->op)) {
    struct dlk_buf b = {0};
    dlk_buf_add(&b, "=", 1);
    for (size_t i = 0; i < n; i++)
      dlk_buf_addf(&b, "%02x", (unsigned char)p[i]);
    cursor = b.failed ? NULL : dlk_value_string(b.data, b.len);
    dlk_buf_free(&b);
  } else {
    cursor = dlk_value_nil();
  }
  dlk_sql_finish(t,
                 dlk_value_add(dlk_value_add(dlk_value_tuple(), keys), cursor));
}

static const struct dlk_sql_step listing = {.statement = DLK_SQL_LIST,
                                            .worker = DLK_SQL_A,
                                            .put = list_put,
                                            .answer = listed};

void dlk_sql_list(struct dlk_sql_try *t) {
  struct dlk_buf behind = {0};
  bool good = read_cursor(t->op, &behind);
  dlk_buf_free(&behind);
  struct dlk_error err;
  if (good) {
    dlk_sql_send(t, &listing);
    return;
  }
  dlk_error_set(&err, DLK_INVALID,
                "this is not a cursor that store:list() gave");
  dlk_sql_done(t, &err);
}

/* ---- break, revoke ---- */

static void acted(struct dlk_sql_try *t, const struct dlk_sql_call *call) {
  (void)call;
  dlk_sql_finish(t, dlk_value_bool(true));
}

static const struct dlk_sql_step breaking = {.statement = DLK_SQL_BREAK,
                                             .worker = DLK_SQL_A,
                                             .lost = DLK_SQL_REPORT,
                                             .put = key_put,
                                             .answer = acted,
                                             .deed = "the break"};

void dlk_sql_break(struct dlk_sql_try *t) {
  dlk_sql_send(t, &breaking);
}

static const struct dlk_sql_step revoking = {.statement = DLK_SQL_REVOKE,
                                             .worker = DLK_SQL_A,
                                             .lost = DLK_SQL_REPORT,
                                             .put = key_put,
                                             .answer = acted,
                                             .deed = "the revoke"};

void dlk_sql_revoke(struct dlk_sql_try *t) {
  dlk_sql_send(t, &revoking);
}
