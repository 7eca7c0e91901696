/* Runs a call: one statement in autocommit, which calls one function of
 * schema.sql. Values travel as parameters, bytes as they are.
 *
 * A mutex that nobody else wants is taken and given back by a bare UPDATE,
 * which costs the server half of what the function does. It has the conditions
 * of the function's own first UPDATE. Where these fail it changes nothing, and
 * then the function is called. It is not used behind a pool, where nothing
 * limits how long it waits for a row (connection.c, P3).
 *
 * A statement that runs for a second time on a connection is prepared: to parse
 * and plan it costs as much as to run it. Behind a pool nothing is, since the
 * next call may meet another server process.
 *
 * If a table or a function of the script is missing, the script is run, once
 * for all programs that come at the same time (an advisory lock), and the call
 * is run again. Whether one is missing is asked, because a guarded statement
 * may lack a table of its own.
 *
 * What a guarded statement sets for its session is undone behind it, but not
 * behind a pool, whose session is another's too. */
#include "store/sql/postgres/run.h"

#include <stdio.h>

#include "core/digits.h"
#include "store/sql/client/place.h"
#include "store/sql/postgres/connection.h"
#include "store/sql/postgres/errors.h"

enum { BYTEA = 17, INT8 = 20, INT4 = 23, BOOL = 16, TEXT = 25 };
enum { TEXTS = 1009, BYTEAS = 1001, INT8S = 1016 };

#define PARAMS_MAX 12

/* %s: the schema in quotes. */
static const char acquire[] =
    "SELECT said, f, place, rank, rest, holder FROM"
    " %s.acquire1($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12)";
static const char take[] =
    "UPDATE %s.key SET fence = greatest(fence + 1, %s.seed1()),"
    " token = $2, until = clock_timestamp() + %s.us1($3),"
    " since = clock_timestamp(), owner = $11, value = $12, asked = false"
    " WHERE id = $1 AND until <= clock_timestamp() AND shared = 0"
    " AND queued = 0 RETURNING 0, fence";
static const char give[] =
    "UPDATE %s.key SET token = '', until = 'epoch' WHERE id = $1"
    " AND token = $2 AND until > clock_timestamp() AND queued = 0"
    " RETURNING true, asked";

static const char *const statements[] = {
    [DLK_SQL_PING] = "SELECT to_regprocedure('%s.sweep1(bigint)') IS NULL",
    [DLK_SQL_ACQUIRE] = acquire,
    [DLK_SQL_LEAVE] = "SELECT held, was_asked FROM %s.leave1($1,$2,$3)",
    [DLK_SQL_EXTEND] = "SELECT rest, was_asked FROM %s.extend1($1,$2,$3,$4)",
    [DLK_SQL_RENEW] = "SELECT at, rest, was_asked FROM %s.renew1($1,$2,$3)",
    [DLK_SQL_ATTACH] = "SELECT rest, was_asked FROM %s.attach1($1,$2,$3,$4,$5)",
    [DLK_SQL_BREAK] = "SELECT held FROM %s.break1($1)",
    [DLK_SQL_REVOKE] = "SELECT held FROM %s.revoke1($1)",
    [DLK_SQL_DOWNGRADE] = "SELECT held FROM %s.downgrade1($1,$2)",
    [DLK_SQL_PUBLISH] = "SELECT held FROM %s.publish1($1,$2,$3)",
    [DLK_SQL_LOOK] = "SELECT fence, owner, rest FROM %s.look1($1)",
    [DLK_SQL_INSPECT] = "SELECT * FROM %s.inspect1($1)",
    [DLK_SQL_LIST] = "SELECT * FROM %s.list1($1,$2,$3,$4)",
    [DLK_SQL_GUARD] = "SELECT %s.guard2($1,$2,$3,$4)",
    [DLK_SQL_SWEEP] = "SELECT %s.sweep1($1)",
    [DLK_PG_TAKE] = take,
    [DLK_PG_GIVE] = give,
};

/* The number of the statement to run first. */
static int first_of(const struct dlk_pg *pg, const struct dlk_sql_call *call) {
  const struct dlk_sql_cell *p = call->params;
  int bare = (int)call->statement;
  if (bare == DLK_SQL_ACQUIRE && p[3].number == 0 && p[5].number < 2)
    bare = DLK_PG_TAKE; /* alone, and has no place yet */
  else if (bare == DLK_SQL_LEAVE && p[2].number <= 0)
    bare = DLK_PG_GIVE;
  return pg->proxied || pg->known[bare] == DLK_PG_NEVER ? (int)call->statement
                                                        : bare;
}

struct params {
  int count;
  Oid types[PARAMS_MAX];
  const char *values[PARAMS_MAX];
  int lengths[PARAMS_MAX], formats[PARAMS_MAX];
  char numbers[PARAMS_MAX][24];
  struct dlk_buf lists[3];
};

static void add(struct params *p, Oid type, const char *value, size_t len,
                int format) {
  p->types[p->count] = type;
  p->values[p->count] = value;
  p->lengths[p->count] = (int)len;
  p->formats[p->count++] = format;
}

static void add_cell(struct params *p, const struct dlk_sql_call *call,
                     const struct dlk_sql_cell *cell) {
  char *digits = p->numbers[p->count];
  if (cell->kind == DLK_SQL_NUMBER) {
    snprintf(digits, sizeof p->numbers[0], "%lld", (long long)cell->number);
    add(p, INT8, digits, 0, 0);
  } else if (cell->kind == DLK_SQL_BYTES) {
    add(p, BYTEA, call->bytes.data + cell->at, cell->len, 1);
  } else {
    add(p, BYTEA, NULL, 0, 1);
  }
}

/* ---- lists, as PostgreSQL writes arrays ---- */

static void list_bytes(struct dlk_buf *out, const char *p, size_t n) {
  dlk_buf_addf(out, "%s\"\\\\x", out->len ? "," : "{");
  for (size_t i = 0; i < n; i++) {
    char pair[2];
    (void)dlk_hex(pair, p + i, 1);
    dlk_buf_add(out, pair, 2);
  }
  dlk_buf_add(out, "\"", 1);
}

static void list_text(struct dlk_buf *out, const char *p, size_t n) {
  dlk_buf_addf(out, "%s\"", out->len ? "," : "{");
  for (size_t i = 0; i < n; i++) {
    if (p[i] == '"' || p[i] == '\\')
      dlk_buf_add(out, "\\", 1);
    dlk_buf_add(out, p + i, 1);
  }
  dlk_buf_add(out, "\"", 1);
}

static void end_list(struct dlk_buf *out) {
  dlk_buf_add(out, out->len ? "}" : "{}", out->len ? 1 : 2);
  dlk_buf_add(out, "", 1);
}

static void renew_params(struct params *p, const struct dlk_sql_call *call) {
  for (size_t i = 0; i + 2 < call->count; i += 3) {
    const struct dlk_sql_cell *c = &call->params[i];
    list_bytes(&p->lists[0], call->bytes.data + c[0].at, c[0].len);
    list_bytes(&p->lists[1], call->bytes.data + c[1].at, c[1].len);
    dlk_buf_addf(&p->lists[2], "%s%lld", p->lists[2].len ? "," : "{",
                 (long long)c[2].number);
  }
  static const Oid types[] = {BYTEAS, BYTEAS, INT8S};
  for (int i = 0; i < 3; i++) {
    end_list(&p->lists[i]);
    add(p, types[i], p->lists[i].data, 0, 0);
  }
}

static void guard_params(struct params *p, const struct dlk_sql_call *call) {
  add_cell(p, call, &call->params[0]);
  add_cell(p, call, &call->params[1]);
  add(p, TEXT, call->bytes.data + call->params[2].at, 0, 0);
  for (size_t i = 3; i < call->count; i++)
    list_text(&p->lists[0], call->bytes.data + call->params[i].at,
              call->params[i].len);
  end_list(&p->lists[0]);
  add(p, TEXTS, p->lists[0].data, 0, 0);
}

static bool make_params(struct params *p, const struct dlk_sql_call *call) {
  if (call->statement == DLK_SQL_RENEW)
    renew_params(p, call);
  else if (call->statement == DLK_SQL_GUARD)
    guard_params(p, call);
  else
    for (size_t i = 0; i < call->count && i < PARAMS_MAX; i++)
      add_cell(p, call, &call->params[i]);
  return !p->lists[0].failed && !p->lists[1].failed && !p->lists[2].failed;
}

static void free_params(struct params *p) {
  for (int i = 0; i < 3; i++)
    dlk_buf_free(&p->lists[i]);
}

/* ---- the answer ---- */

static int64_t big_endian(const char *p, int n) {
  uint64_t v = n > 0 && (p[0] & 0x80) ? UINT64_MAX : 0;
  for (int i = 0; i < n; i++)
    v = v << 8 | (unsigned char)p[i];
  return (int64_t)v;
}

static void read_rows(struct dlk_sql_call *call, const PGresult *r) {
  call->rows = (size_t)PQntuples(r);
  call->columns = (size_t)PQnfields(r);
  for (int row = 0; row < PQntuples(r); row++)
    for (int column = 0; column < PQnfields(r); column++) {
      const char *p = PQgetvalue(r, row, column);
      int n = PQgetlength(r, row, column);
      Oid type = PQftype(r, column);
      if (PQgetisnull(r, row, column))
        dlk_sql_cell_null(call);
      else if (type == BOOL || ((type == INT4 || type == INT8) && n <= 8))
        dlk_sql_cell_number(call, big_endian(p, n));
      else
        dlk_sql_cell_bytes(call, p, (size_t)n);
    }
  call->verdict = call->failed ? DLK_SQL_UNSURE : DLK_SQL_GOOD;
  if (call->failed)
    dlk_error_set(&call->err, DLK_UNAVAILABLE, "out of memory");
}

static void lost(struct dlk_pg *pg, struct dlk_sql_call *call) {
  pg->lost = true;
  call->verdict = call->begun ? DLK_SQL_UNSURE : DLK_SQL_NOT_DONE;
  dlk_error_set(&call->err, DLK_UNAVAILABLE,
                "'%s': the connection was lost, or no answer came in time",
                pg->place->shown);
}

static void refused(struct dlk_pg *pg, struct dlk_sql_call *call,
                    const struct dlk_pg_error *e, const PGresult *r) {
  const char *words = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
  const char *detail = call->statement == DLK_SQL_GUARD
                           ? PQresultErrorField(r, PG_DIAG_MESSAGE_DETAIL)
                           : NULL;
  call->verdict = e->verdict;
  pg->lost = e->leave;
  dlk_error_set(&call->err, e->code, "'%s': %.250s%s%.150s", pg->place->shown,
                words ? words : "it refuses", detail ? ": " : "",
                detail ? detail : "");
}

static void name_of(int statement, char name[32]) {
  snprintf(name, 32, "dlock_%d", statement);
}

/* Nothing that the call asks for. False: the connection is lost. */
static bool prepare(struct dlk_sql_worker *w, struct dlk_pg *pg, int statement,
                    const struct params *p, const char *text) {
  enum dlk_pg_known *known = &pg->known[statement];
  char name[32];
  if (pg->proxied || *known == DLK_PG_PREPARED || *known == DLK_PG_NEVER)
    return true;
  if (*known == DLK_PG_NEW) {
    *known = DLK_PG_RAN;
    return true;
  }
  name_of(statement, name);
  PGresult *r = NULL;
  if (PQsendPrepare(pg->c, name, text, p->count, p->types))
    r = dlk_pg_await(w, pg,
                     dlk_time_add(dlk_clock_now(), pg->place->io_timeout));
  bool made = r && PQresultStatus(r) == PGRES_COMMAND_OK;
  *known = made ? DLK_PG_PREPARED : DLK_PG_NEVER;
  PQclear(r);
  return r != NULL;
}

static bool send(struct dlk_pg *pg, int statement, const struct params *p,
                 const char *text) {
  char name[32];
  if (pg->known[statement] != DLK_PG_PREPARED)
    return PQsendQueryParams(pg->c, text, p->count, p->types, p->values,
                             p->lengths, p->formats, 1) == 1;
  name_of(statement, name);
  return PQsendQueryPrepared(pg->c, name, p->count, p->values, p->lengths,
                             p->formats, 1) == 1;
}

static PGresult *ask(struct dlk_sql_worker *w, struct dlk_pg *pg,
                     struct dlk_sql_call *call, int statement) {
  const char *schema = pg->place->schema;
  struct params p = {.count = 0};
  struct dlk_buf text = {0};
  PGresult *r = NULL;
  dlk_buf_addf(&text, statements[statement], schema, schema, schema);
  dlk_buf_add(&text, "", 1);
  if (make_params(&p, call) && !text.failed &&
      prepare(w, pg, statement, &p, text.data)) {
    call->sent = dlk_clock_now();
    if (send(pg, statement, &p, text.data)) {
      call->begun = true;
      r = dlk_pg_await(w, pg, dlk_time_add(call->sent, pg->place->io_timeout));
    }
  }
  free_params(&p);
  dlk_buf_free(&text);
  return r;
}

/* ---- the schema ---- */

/* An expression: something of the script is not there. */
static void put_lacks(struct dlk_buf *out, const struct dlk_sql_place *place) {
  const char *schema = place->schema;
  dlk_buf_addf(out,
               "(SELECT count(*) FROM pg_class WHERE relnamespace ="
               " to_regnamespace('%s') AND relkind IN ('r', 'p')"
               " AND relname IN (",
               schema);
  size_t count =
      dlk_sql_place_names(place, "CREATE TABLE IF NOT EXISTS dlock.", "", out);
  dlk_buf_addf(out,
               ")) + (SELECT count(DISTINCT proname) FROM pg_proc WHERE"
               " pronamespace = to_regnamespace('%s') AND proname IN (",
               schema);
  count +=
      dlk_sql_place_names(place, "CREATE OR REPLACE FUNCTION dlock.", "", out);
  dlk_buf_addf(out, ")) < %zu", count);
}

/* The script for our schema's name, unless another program made it meanwhile.
 */
static void put_script(struct dlk_buf *out, const struct dlk_sql_place *place) {
  const char *at = place->script, *schema = place->schema, *next;
  dlk_buf_addf(out,
               "DO $dlock$ BEGIN PERFORM set_config('lock_timeout', '0', true);"
               " PERFORM pg_advisory_xact_lock(7236846901); IF ");
  put_lacks(out, place);
  dlk_buf_addf(out, " THEN\n");
  while ((next = strstr(at, "dlock")) != NULL) {
    bool named = next[5] == '.' || next[5] == ';';
    dlk_buf_add(out, at, (size_t)(next - at));
    dlk_buf_addf(out, "%s", named ? schema : "dlock");
    at = next + 5;
  }
  dlk_buf_addf(out, "%s\nEND IF; END $dlock$", at);
  dlk_buf_add(out, "", 1);
}

/* NULL: there is a schema now; else why not. */
static bool make_schema(struct dlk_sql_worker *w, struct dlk_pg *pg,
                        struct dlk_sql_call *call) {
  struct dlk_buf text = {0};
  put_script(&text, pg->place);
  PGresult *r = text.failed ? NULL
                            : dlk_pg_query(w, pg, text.data,
                                           dlk_clock_now() + 10 * DLK_SEC);
  dlk_buf_free(&text);
  bool made = r && PQresultStatus(r) == PGRES_COMMAND_OK;
  const char *state = r ? PQresultErrorField(r, PG_DIAG_SQLSTATE) : NULL;
  const char *words = r ? PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY) : NULL;
  const struct dlk_pg_error *e = dlk_pg_error_find(state ? state : "08000");
  call->verdict = DLK_SQL_NOT_DONE;
  if (!made && e->code != DLK_UNAVAILABLE) {
    call->verdict = DLK_SQL_REFUSED;
    dlk_error_set(&call->err, DLK_DENIED,
                  "'%s': dlock's schema %s is not there, or not all of it, and "
                  "this user may not make it (%.100s); an administrator does: "
                  "dlock --schema %s schema postgres | psql %s",
                  pg->place->shown, pg->place->schema, words ? words : "",
                  pg->place->schema, pg->place->database);
  } else if (!made) {
    dlk_error_set(&call->err, DLK_UNAVAILABLE, "'%s': %.250s", pg->place->shown,
                  words ? words : "the connection was lost");
  }
  PQclear(r);
  return made;
}

static bool lacks_schema(struct dlk_sql_worker *w, struct dlk_pg *pg) {
  struct dlk_buf text = {0};
  dlk_buf_addf(&text, "SELECT (");
  put_lacks(&text, pg->place);
  dlk_buf_add(&text, ")::int", 7);
  PGresult *r = text.failed
                    ? NULL
                    : dlk_pg_query(w, pg, text.data,
                                   dlk_clock_now() + pg->place->io_timeout);
  dlk_buf_free(&text);
  bool lacks = r && PQresultStatus(r) == PGRES_TUPLES_OK &&
               dlk_pg_number(r, 0, 0, 0) != 0;
  PQclear(r);
  return lacks;
}

static void run(struct dlk_sql_worker *w, struct dlk_pg *pg,
                struct dlk_sql_call *call) {
  for (bool made = false;; made = true) {
    int statement = first_of(pg, call);
    PGresult *r = ask(w, pg, call, statement);
    if (r && statement >= DLK_PG_TAKE && PQresultStatus(r) == PGRES_TUPLES_OK &&
        PQntuples(r) == 0) {
      PQclear(r);
      statement = (int)call->statement;
      r = ask(w, pg, call, statement);
    }
    if (!r) {
      lost(pg, call);
      return;
    }
    if (PQresultStatus(r) == PGRES_TUPLES_OK) {
      read_rows(call, r);
      PQclear(r);
      return;
    }
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    if (!state) { /* the library's, such as a lack of memory */
      PQclear(r);
      lost(pg, call);
      return;
    }
    const struct dlk_pg_error *e = dlk_pg_error_find(state);
    refused(pg, call, e, r);
    PQclear(r);
    /* A server process that lacks it, in spite of all. */
    bool unknown = strcmp(e->state, "26000") == 0;
    if (unknown)
      pg->known[statement] = DLK_PG_NEVER;
    /* Another program may have made it since. */
    bool again = (e->schema || unknown) && !made;
    if (e->schema && again && lacks_schema(w, pg))
      again = make_schema(w, pg, call);
    if (!again || pg->lost)
      return;
  }
}

void dlk_pg_run(struct dlk_sql_worker *w, void *connection,
                struct dlk_sql_call *call) {
  struct dlk_pg *pg = connection;
  run(w, pg, call);
  if (call->statement == DLK_SQL_GUARD && !pg->lost && !pg->proxied)
    dlk_pg_reset(w, pg, dlk_clock_now() + pg->place->io_timeout);
}
