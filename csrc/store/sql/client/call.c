/* Calls: parameters on the way in, cells on the way out. */
#include "store/sql/client/call.h"

#include <stdlib.h>

struct dlk_sql_call *dlk_sql_call_new(enum dlk_sql_statement statement,
                                      void (*answer)(struct dlk_sql_call *),
                                      void *who) {
  struct dlk_sql_call *call = calloc(1, sizeof *call);
  if (!call)
    return NULL;
  dlk_list_init(&call->link);
  call->statement = statement;
  call->answer = answer;
  call->who = who;
  return call;
}

void dlk_sql_call_free(struct dlk_sql_call *call) {
  dlk_list_remove(&call->link);
  dlk_buf_free(&call->bytes);
  dlk_buf_free(&call->text);
  free(call->owned);
  free(call->params);
  free(call->cells);
  free(call);
}

/* A cell more in a list that doubles; NULL: no memory. */
static struct dlk_sql_cell *more(struct dlk_sql_cell **list, size_t count) {
  if (count < 8 || (count & (count - 1)) == 0) {
    size_t room = count < 8 ? 8 : 2 * count;
    struct dlk_sql_cell *grown =
        count > 0 && count < 8 ? *list : realloc(*list, room * sizeof **list);
    if (!grown)
      return NULL;
    *list = grown;
  }
  (*list)[count] = (struct dlk_sql_cell){.kind = DLK_SQL_NULL};
  return &(*list)[count];
}

static struct dlk_sql_cell *put(struct dlk_sql_call *call) {
  struct dlk_sql_cell *cell = more(&call->params, call->count);
  if (cell)
    call->count++;
  else
    call->failed = true;
  return cell;
}

static void fill(struct dlk_sql_cell *cell, struct dlk_buf *out, const void *p,
                 size_t len) {
  cell->kind = DLK_SQL_BYTES;
  cell->at = out->len;
  cell->len = len;
  dlk_buf_add(out, p, len);
  dlk_buf_add(out, "", 1);
}

void dlk_sql_put_bytes(struct dlk_sql_call *call, const void *p, size_t len) {
  struct dlk_sql_cell *cell = put(call);
  if (!cell)
    return;
  fill(cell, &call->bytes, p, len);
  call->failed = call->failed || call->bytes.failed;
}

void dlk_sql_put_number(struct dlk_sql_call *call, int64_t number) {
  struct dlk_sql_cell *cell = put(call);
  if (cell)
    *cell = (struct dlk_sql_cell){.kind = DLK_SQL_NUMBER, .number = number};
}

void dlk_sql_put_null(struct dlk_sql_call *call) {
  (void)put(call);
}

static struct dlk_sql_cell *answer_cell(struct dlk_sql_call *call) {
  struct dlk_sql_cell *cell = more(&call->cells, call->room);
  if (cell)
    call->room++;
  else
    call->failed = true;
  return cell;
}

void dlk_sql_cell_number(struct dlk_sql_call *call, int64_t number) {
  struct dlk_sql_cell *cell = answer_cell(call);
  if (cell)
    *cell = (struct dlk_sql_cell){.kind = DLK_SQL_NUMBER, .number = number};
}

void dlk_sql_cell_bytes(struct dlk_sql_call *call, const void *p, size_t len) {
  struct dlk_sql_cell *cell = answer_cell(call);
  if (!cell)
    return;
  fill(cell, &call->text, p, len);
  call->failed = call->failed || call->text.failed;
}

void dlk_sql_cell_null(struct dlk_sql_call *call) {
  (void)answer_cell(call);
}

static const struct dlk_sql_cell *at(const struct dlk_sql_call *call,
                                     size_t row, size_t column) {
  return row < call->rows && column < call->columns
             ? &call->cells[row * call->columns + column]
             : NULL;
}

int64_t dlk_sql_number(const struct dlk_sql_call *call, size_t row,
                       size_t column, int64_t otherwise) {
  const struct dlk_sql_cell *cell = at(call, row, column);
  return cell && cell->kind == DLK_SQL_NUMBER ? cell->number : otherwise;
}

const char *dlk_sql_bytes(const struct dlk_sql_call *call, size_t row,
                          size_t column, size_t *len) {
  const struct dlk_sql_cell *cell = at(call, row, column);
  *len = 0;
  if (!cell || cell->kind != DLK_SQL_BYTES)
    return NULL;
  *len = cell->len;
  return call->text.data + cell->at;
}
