/* Runs a call: CALL of one procedure of schema.sql. Values travel as digits and
 * hex literals, so that no mode or character set has a say.
 *
 * A mutex that nobody else wants is taken and given back by a bare UPDATE,
 * which costs the server half of what the procedure does. It has the conditions
 * of the procedure's own first UPDATE. Where these fail it changes nothing, and
 * then the procedure is called; so too where it is refused, because the
 * procedure's error says more. It is not used behind a pool, which may keep
 * what the UPDATE tells besides.
 *
 * If a table or a procedure of the script is missing, the script is run,
 * statement by statement, and then the call again. Whether one is missing is
 * asked, because a guarded statement may lack a table of its own. Programs that
 * come at the same time make each thing once, because what is there already is
 * passed over. */
#include "store/sql/mysql/run.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/digits.h"
#include "store/sql/client/place.h"
#include "store/sql/mysql/connection.h"
#include "store/sql/mysql/errors.h"

#define SCHEMA_TIME (10 * DLK_SEC)
#define EXISTS_TABLE 1050
#define EXISTS_PROCEDURE 1304

static const char *const procedures[] = {
    [DLK_SQL_ACQUIRE] = "acquire1", [DLK_SQL_LEAVE] = "leave1",
    [DLK_SQL_EXTEND] = "extend1",   [DLK_SQL_RENEW] = "renew1",
    [DLK_SQL_ATTACH] = "attach1",   [DLK_SQL_BREAK] = "break1",
    [DLK_SQL_REVOKE] = "revoke1",   [DLK_SQL_DOWNGRADE] = "downgrade1",
    [DLK_SQL_LOOK] = "look1",       [DLK_SQL_INSPECT] = "inspect1",
    [DLK_SQL_LIST] = "list1",       [DLK_SQL_GUARD] = "guard1",
    [DLK_SQL_SWEEP] = "sweep1",     [DLK_SQL_PUBLISH] = "publish1",
};

/* ---- the text ---- */

static void add_hex(struct dlk_buf *out, const char *p, size_t n) {
  for (size_t i = 0; i < n; i++) {
    char pair[2];
    (void)dlk_hex(pair, p + i, 1);
    dlk_buf_add(out, pair, 2);
  }
}

static void add_cell(struct dlk_buf *out, const struct dlk_sql_call *call,
                     size_t i, const char *charset) {
  const struct dlk_sql_cell *cell = &call->params[i];
  if (cell->kind == DLK_SQL_NUMBER) {
    dlk_buf_addf(out, "%lld", (long long)cell->number);
  } else if (cell->kind == DLK_SQL_BYTES) {
    dlk_buf_addf(out, "%sX'", charset);
    add_hex(out, call->bytes.data + cell->at, cell->len);
    dlk_buf_add(out, "'", 1);
  } else {
    dlk_buf_add(out, "NULL", 4);
  }
}

static void add_renewals(struct dlk_buf *out, const struct dlk_sql_call *call) {
  dlk_buf_add(out, "X'", 2);
  for (size_t i = 0; i + 2 < call->count; i += 3) {
    const struct dlk_sql_cell *c = &call->params[i];
    dlk_buf_addf(out, "%04x%016llx", (unsigned)c[0].len,
                 (unsigned long long)c[2].number);
    add_hex(out, call->bytes.data + c[1].at, c[1].len);
    add_hex(out, call->bytes.data + c[0].at, c[0].len);
  }
  dlk_buf_add(out, "'", 1);
}

static void add_words(struct dlk_buf *out, const struct dlk_sql_call *call) {
  for (size_t i = 3; i < call->count; i++) {
    dlk_buf_addf(out, "%s@w%zu=", i == 3 ? "SET " : ",", i - 2);
    add_cell(out, call, i, "_utf8mb4 ");
  }
  if (call->count > 3)
    dlk_buf_add(out, ";", 1);
}

/* ---- the bare statements ---- */

/* Whether there is one for this call. */
static bool is_bare(const struct dlk_my *my, const struct dlk_sql_call *call) {
  const struct dlk_sql_cell *p = call->params;
  if (my->proxied)
    return false;
  if (call->statement == DLK_SQL_ACQUIRE) /* alone, and has no place yet */
    return p[3].number == 0 && p[5].number < 2;
  return call->statement == DLK_SQL_LEAVE && p[2].number <= 0;
}

/* The fence, or whether it was asked for, is what LAST_INSERT_ID keeps. */
static void put_bare(struct dlk_buf *out, const struct dlk_sql_call *call,
                     const char *tables) {
  bool takes = call->statement == DLK_SQL_ACQUIRE;
  dlk_buf_addf(out, "UPDATE %skey SET ", tables);
  if (takes) {
    dlk_buf_addf(out,
                 "fence=LAST_INSERT_ID(GREATEST(fence+1,1000000000000"
                 "+TIMESTAMPDIFF(MICROSECOND,'2020-09-13 12:26:40',"
                 "UTC_TIMESTAMP(6))*64 DIV 1000)),since=UTC_TIMESTAMP(6),"
                 "asked=0,until=UTC_TIMESTAMP(6)+INTERVAL %lld MICROSECOND,"
                 "token=",
                 (long long)call->params[2].number);
    add_cell(out, call, 1, "");
    dlk_buf_addf(out, ",owner=");
    add_cell(out, call, 10, "");
    dlk_buf_addf(out, ",value=");
    add_cell(out, call, 11, "");
  } else {
    dlk_buf_addf(out, "token='',until='2000-01-01',asked=LAST_INSERT_ID("
                      "asked)");
  }
  dlk_buf_addf(out, " WHERE id=");
  add_cell(out, call, 0, "");
  if (!takes) {
    dlk_buf_addf(out, " AND token=");
    add_cell(out, call, 1, "");
  }
  dlk_buf_addf(out, " AND until%sUTC_TIMESTAMP(6) AND queued=0%s",
               takes ? "<=" : ">", takes ? " AND shared=0" : "");
}

/* What the procedure would answer. */
static void read_bare(struct dlk_my *my, struct dlk_sql_call *call) {
  bool takes = call->statement == DLK_SQL_ACQUIRE;
  dlk_sql_cell_number(call, takes ? 0 : 1);
  dlk_sql_cell_number(call, (int64_t)mysql_insert_id(&my->c));
  call->rows = 1;
  call->columns = 2;
}

static void put_call(struct dlk_buf *out, const struct dlk_sql_call *call,
                     const char *tables) {
  enum dlk_sql_statement s = call->statement;
  if (s == DLK_SQL_PING) {
    dlk_buf_addf(out, "SELECT 1");
    return;
  }
  if (s == DLK_SQL_GUARD)
    add_words(out, call);
  dlk_buf_addf(out, "CALL %s%s(", tables, procedures[s]);
  if (s == DLK_SQL_RENEW)
    add_renewals(out, call);
  for (size_t i = 0; s != DLK_SQL_RENEW && i < call->count; i++) {
    if (s == DLK_SQL_GUARD && i == 3)
      break;
    if (i > 0)
      dlk_buf_add(out, ",", 1);
    add_cell(out, call, i, s == DLK_SQL_GUARD && i == 2 ? "_utf8mb4 " : "");
  }
  if (s == DLK_SQL_GUARD)
    dlk_buf_addf(out, ",%zu", call->count - 3);
  dlk_buf_add(out, ")", 1);
}

/* ---- the answer ---- */

static bool is_number(const MYSQL_FIELD *field) {
  switch (field->type) {
  case MYSQL_TYPE_TINY:
  case MYSQL_TYPE_SHORT:
  case MYSQL_TYPE_INT24:
  case MYSQL_TYPE_LONG:
  case MYSQL_TYPE_LONGLONG:
  case MYSQL_TYPE_NEWDECIMAL:
    return true;
  default:
    return false;
  }
}

/* Lines of three numbers. */
static void read_renewals(struct dlk_sql_call *call, const char *text) {
  call->columns = 3;
  while (text && *text) {
    char *end;
    for (int i = 0; i < 3; i++) {
      dlk_sql_cell_number(call, strtoll(text, &end, 10));
      text = end;
    }
    call->rows++;
    text += strspn(text, "\n");
  }
}

/* The last result counts: a guarded statement may give some before. Of these no
 * more than a number is kept. */
static void read_rows(void *who, MYSQL_RES *r, MYSQL_ROW row) {
  struct dlk_sql_call *call = who;
  const MYSQL_FIELD *fields = mysql_fetch_fields(r);
  if (!row) {
    call->room = call->rows = 0;
    call->columns = mysql_num_fields(r);
    dlk_buf_clear(&call->text);
    return;
  }
  if (call->statement == DLK_SQL_RENEW) {
    read_renewals(call, row[0]);
    return;
  }
  if (call->statement == DLK_SQL_GUARD &&
      (call->columns != 1 || call->rows > 0 || !is_number(fields)))
    return;
  const unsigned long *lengths = mysql_fetch_lengths(r);
  for (size_t i = 0; i < call->columns; i++) {
    if (!row[i])
      dlk_sql_cell_null(call);
    else if (is_number(&fields[i]))
      dlk_sql_cell_number(call, strtoll(row[i], NULL, 10));
    else
      dlk_sql_cell_bytes(call, row[i], lengths[i]);
  }
  call->rows++;
}

static void refused(struct dlk_my *my, struct dlk_sql_call *call,
                    const struct dlk_my_error *e) {
  call->verdict = e->verdict;
  if (my->lost)
    call->verdict = DLK_SQL_UNSURE;
  my->lost = my->lost || e->leave;
  if (my->cut)
    dlk_error_set(&call->err, DLK_UNAVAILABLE, "'%s': no answer came in time",
                  my->place->shown);
  else
    dlk_error_set(&call->err,
                  call->verdict == DLK_SQL_UNSURE ? DLK_UNAVAILABLE : e->code,
                  "'%s': %.250s", my->place->shown, mysql_error(&my->c));
}

/* 0, or the error's number. */
static unsigned ask(struct dlk_sql_worker *w, struct dlk_my *my,
                    struct dlk_sql_call *call, bool bare) {
  struct dlk_buf text = {0};
  if (bare)
    put_bare(&text, call, my->place->schema);
  else
    put_call(&text, call, my->place->schema);
  if (text.failed) {
    dlk_buf_free(&text);
    call->verdict = DLK_SQL_NOT_DONE;
    dlk_error_set(&call->err, DLK_UNAVAILABLE, "out of memory");
    return 0;
  }
  if (text.len >= my->packet) { /* the server would hang up */
    call->verdict = DLK_SQL_REFUSED;
    dlk_error_set(&call->err, DLK_INVALID,
                  "'%s': a statement of %zu bytes is longer than the server's "
                  "max_allowed_packet (%zu); bytes count twice",
                  my->place->shown, text.len, my->packet);
    dlk_buf_free(&text);
    return 0;
  }
  call->sent = dlk_clock_now();
  call->begun = true;
  unsigned bad = dlk_my_query(w, my, text.data, text.len,
                              dlk_time_add(call->sent, my->place->io_timeout),
                              read_rows, call);
  dlk_buf_free(&text);
  bool denied = bad && dlk_my_error_find(bad)->verdict == DLK_SQL_REFUSED;
  if (bare && (denied || (!bad && mysql_affected_rows(&my->c) == 0)))
    return ask(w, my, call, false);
  if (bare && !bad)
    read_bare(my, call);
  call->verdict = call->failed ? DLK_SQL_UNSURE : DLK_SQL_GOOD;
  if (call->failed)
    dlk_error_set(&call->err, DLK_UNAVAILABLE, "out of memory");
  return bad;
}

/* ---- the schema ---- */

static bool run_one(struct dlk_sql_worker *w, struct dlk_my *my,
                    const char *from, const char *to, int64_t deadline) {
  struct dlk_buf text = {0};
  while (from < to) {
    const char *next = strstr(from, "dlock_");
    if (!next || next > to)
      next = to;
    dlk_buf_add(&text, from, (size_t)(next - from));
    if (next < to)
      dlk_buf_addf(&text, "%s", my->place->schema);
    from = next < to ? next + 6 : to;
  }
  unsigned bad;
  do
    bad = text.failed
              ? 1037
              : dlk_my_query(w, my, text.data, text.len, deadline, NULL, NULL);
  while (dlk_my_error_find(bad)->verdict == DLK_SQL_CROSSED &&
         dlk_clock_now() < deadline);
  dlk_buf_free(&text);
  return bad == 0 || bad == EXISTS_TABLE || bad == EXISTS_PROCEDURE;
}

/* Statements end with " //" at a line's end, behind the DELIMITER line. */
static bool make_schema(struct dlk_sql_worker *w, struct dlk_my *my,
                        struct dlk_sql_call *call) {
  static const char begin[] = "\nDELIMITER //\n", mark[] = " //\n";
  static const char mode[] = "SET SESSION sql_mode=''";
  int64_t deadline = dlk_time_add(dlk_clock_now(), SCHEMA_TIME);
  const char *at = strstr(my->place->script, begin), *end;
  bool made = at != NULL;
  for (at += sizeof begin - 1; made && (end = strstr(at, mark)) != NULL;
       at = end + sizeof mark - 1)
    made = run_one(w, my, at, end, deadline);
  if (made)
    made =
        dlk_my_query(w, my, mode, sizeof mode - 1, deadline, NULL, NULL) == 0;
  if (made)
    return true;
  const struct dlk_my_error *e = dlk_my_error_find(mysql_errno(&my->c));
  call->verdict = DLK_SQL_NOT_DONE;
  if (!my->lost && e->code != DLK_UNAVAILABLE) {
    const char *tables = my->place->schema;
    bool usual = strcmp(tables, "dlock_") == 0;
    call->verdict = DLK_SQL_REFUSED;
    dlk_error_set(&call->err, DLK_DENIED,
                  "'%s': dlock's tables and procedures %s… are not there, or "
                  "this user may not EXECUTE them, and it may not make them "
                  "(%.100s); an administrator does: dlock %s%s%sschema mysql | "
                  "mysql %.64s",
                  my->place->shown, tables, mysql_error(&my->c),
                  usual ? "" : "--tables ", usual ? "" : tables,
                  usual ? "" : " ", my->place->database);
  } else {
    dlk_error_set(&call->err, DLK_UNAVAILABLE, "'%s': %.250s", my->place->shown,
                  mysql_error(&my->c));
  }
  return false;
}

static void note_row(void *who, MYSQL_RES *r, MYSQL_ROW row) {
  (void)r;
  *(bool *)who = row == NULL;
}

static bool lacks_schema(struct dlk_sql_worker *w, struct dlk_my *my) {
  const struct dlk_sql_place *place = my->place;
  struct dlk_buf text = {0};
  bool lacks = false;
  dlk_buf_addf(&text, "SELECT 1 FROM DUAL WHERE (SELECT COUNT(*) FROM"
                      " information_schema.TABLES WHERE TABLE_SCHEMA ="
                      " DATABASE() AND TABLE_NAME IN (");
  size_t count = dlk_sql_place_names(place, "CREATE TABLE IF NOT EXISTS dlock_",
                                     place->schema, &text);
  dlk_buf_addf(&text, ")) + (SELECT COUNT(*) FROM information_schema.ROUTINES"
                      " WHERE ROUTINE_SCHEMA = DATABASE() AND ROUTINE_NAME"
                      " IN (");
  count += dlk_sql_place_names(place, "IF NOT EXISTS */\ndlock_", place->schema,
                               &text);
  dlk_buf_addf(&text, ")) >= %zu", count);
  int64_t deadline = dlk_time_add(dlk_clock_now(), place->io_timeout);
  unsigned bad = text.failed ? 1037
                             : dlk_my_query(w, my, text.data, text.len,
                                            deadline, note_row, &lacks);
  dlk_buf_free(&text);
  return bad == 0 && lacks;
}

void dlk_my_run(struct dlk_sql_worker *w, void *connection,
                struct dlk_sql_call *call) {
  struct dlk_my *my = connection;
  for (bool made = false;; made = true) {
    unsigned bad = ask(w, my, call, is_bare(my, call));
    const struct dlk_my_error *e = dlk_my_error_find(bad);
    if (bad)
      refused(my, call, e);
    /* What a program's own statement set must not be what ours run under: its
     * clock would end holds at any time. */
    if (call->statement == DLK_SQL_GUARD && !my->lost)
      dlk_my_reset(w, my, dlk_time_add(dlk_clock_now(), my->place->io_timeout));
    /* Another program may have made it since. */
    bool again = bad && !my->lost && e->schema && !made;
    if (again && lacks_schema(w, my))
      again = make_schema(w, my, call);
    if (!again || my->lost)
      return;
  }
}
