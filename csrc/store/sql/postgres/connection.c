/* Connecting, notices, and the end of a lost request.
 *
 * P1  Of several hosts the first that takes writes is used; each gets its share
 *     of the time.
 * P2  What libpq would take from the environment is given, or refused
 *     (postgres.c), but for PGOPTIONS, PGTZ, and PGUSER and PGPASSWORD where
 *     there is no user or password.
 * P3  Each session reads what is committed, whatever the role's default is: a
 *     statement that waited looks again. A pool's sessions are others' too, and
 *     stay as they are; there a call may be crossed (worker.c, W6).
 *     Where calls are made, a bare statement waits for a row as long as a
 *     function of ours does.
 * P4  A backend is ended by its number and start, because numbers come again.
 *     It is gone when pg_stat_activity lacks it: its transaction ended before.
 *     Behind a pool the number is not ours, and nothing is ended.
 * P5  While it listens, a connection has the advisory lock that says that its
 *     client lives (schema.sql, R8). */
#include "store/sql/postgres/connection.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/sql/postgres/errors.h"

#define OLDEST 120000
#define PARAMS 24

struct params {
  const char *names[PARAMS], *values[PARAMS];
  size_t count;
};

static void give(struct params *p, const char *name, const char *value) {
  if (!value || p->count + 1 >= PARAMS)
    return;
  p->names[p->count] = name;
  p->values[p->count++] = value;
}

static const char *cas(const struct dlk_sql_place *place) {
  static const char *const usual[] = {"/etc/ssl/certs/ca-certificates.crt",
                                      "/etc/pki/tls/certs/ca-bundle.crt",
                                      "/etc/ssl/cert.pem"};
  const char *env = getenv("SSL_CERT_FILE");
  if (place->cafile)
    return place->cafile;
  if (env && *env)
    return env;
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
    if (access(usual[i], R_OK) == 0)
      return usual[i];
  return "/nonexistent";
}

static void give_tls(struct params *p, const struct dlk_sql_place *place) {
  if (!place->tls) {
    give(p, "sslmode", "disable");
    return;
  }
  give(p, "sslmode", place->verify ? "verify-full" : "require");
  give(p, "sslrootcert", place->verify ? cas(place) : "/nonexistent");
  give(p, "sslcert", place->cert ? place->cert : "/nonexistent");
  give(p, "sslkey",
       place->key    ? place->key
       : place->cert ? place->cert
                     : "/nonexistent");
  /* Without one it would ask at the terminal. */
  give(p, "sslpassword", place->key_password ? place->key_password : "none");
  give(p, "sslcrl", "/nonexistent");
  give(p, "ssl_min_protocol_version",
       place->min_version && strcmp(place->min_version, "1.3") == 0
           ? "TLSv1.3"
           : "TLSv1.2");
}

static void ignore(void *arg, const PGresult *result) {
  (void)arg;
  (void)result;
}

/* ---- one host ---- */

static void fail(const struct dlk_pg *pg, struct dlk_error *err,
                 const char *text) {
  char state[6], words[256];
  dlk_pg_error_read(text, state, words, sizeof words);
  enum dlk_code code = DLK_UNAVAILABLE;
  /* PgBouncer has one state for all that it refuses. */
  bool pool = strcmp(state, "08P01") == 0;
  if (pool && strstr(words, "no such database"))
    code = DLK_INVALID;
  else if (state[0] && !(pool && (strstr(words, "authentication failed") ||
                                  strstr(words, "no such user"))))
    code = dlk_pg_error_find(state)->code;
  else if (state[0] || PQconnectionNeedsPassword(pg->c) ||
           strstr(text, "SSL") || strstr(text, "certificate") ||
           strstr(text, "private key") || strstr(text, "SASL") ||
           strstr(text, "SCRAM") ||
           (strstr(text, "authentication") &&
            !strstr(text, "expected authentication request")))
    code = DLK_DENIED;
  dlk_error_set(err, code, "'%s': %s", pg->place->shown, words);
}

static bool shake_hands(struct dlk_sql_worker *w, struct dlk_pg *pg,
                        int64_t deadline, struct dlk_error *err) {
  PostgresPollingStatusType next = PGRES_POLLING_WRITING;
  while (next != PGRES_POLLING_OK) {
    if (next == PGRES_POLLING_FAILED || PQstatus(pg->c) == CONNECTION_BAD) {
      fail(pg, err, PQerrorMessage(pg->c));
      return false;
    }
    short events = next == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    if (!dlk_sql_wait(w, PQsocket(pg->c), events, deadline)) {
      dlk_error_set(err, DLK_UNAVAILABLE, "'%s': it does not answer",
                    pg->place->shown);
      return false;
    }
    next = PQconnectPoll(pg->c);
  }
  return true;
}

/* P3 */
#define LEVEL                                                                  \
  "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED"
#define WAITS "SET lock_timeout = '1s'"

static bool greet(struct dlk_sql_worker *w, struct dlk_pg *pg, int64_t deadline,
                  struct dlk_sql_peer *self, struct dlk_error *err) {
  static const char text[] =
      "SELECT pid, (extract(epoch FROM backend_start) * 1000000)::bigint,"
      " CASE WHEN pg_is_in_recovery() THEN 2"
      "  WHEN current_setting('transaction_read_only') = 'on' THEN 1"
      "  ELSE 0 END, current_setting('server_version_num')"
      " FROM pg_stat_activity WHERE pid = pg_backend_pid()";
  PGresult *r = dlk_pg_query(w, pg, text, deadline);
  if (!r || PQresultStatus(r) != PGRES_TUPLES_OK) {
    fail(pg, err, r ? PQresultErrorMessage(r) : "the connection was lost");
    PQclear(r);
    return false;
  }
  int64_t pid = dlk_pg_number(r, 0, 0, 0);
  int64_t reads_only = dlk_pg_number(r, 0, 2, 2);
  int64_t version = dlk_pg_number(r, 0, 3, 0);
  self->since = dlk_pg_number(r, 0, 1, 0);
  pg->proxied = pid != PQbackendPID(pg->c);
  self->id = pg->proxied ? -1 : pid;
  PQclear(r);
  if (!pg->proxied) {
    PQclear(dlk_pg_query(w, pg, LEVEL, deadline));
    if (!pg->lost && !pg->place->listen)
      PQclear(dlk_pg_query(w, pg, WAITS, deadline));
    if (pg->lost) {
      fail(pg, err, "the connection was lost");
      return false;
    }
  }
  if (version < OLDEST)
    dlk_error_set(err, DLK_UNSUPPORTED,
                  "'%s': dlock needs PostgreSQL 12 or newer", pg->place->shown);
  else if (reads_only)
    dlk_error_set(err, DLK_UNAVAILABLE,
                  reads_only == 2
                      ? "'%s': the server is read-only (a replica?)"
                      : "'%s': transactions are read-only there, by "
                        "default_transaction_read_only",
                  pg->place->shown);
  return version >= OLDEST && !reads_only;
}

void dlk_pg_reset(struct dlk_sql_worker *w, struct dlk_pg *pg,
                  int64_t deadline) {
  static const char text[] =
      "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; CLOSE ALL;"
      " UNLISTEN *; SELECT pg_advisory_unlock_all(); DISCARD TEMP;" LEVEL
      ";" WAITS;
  PGresult *r = dlk_pg_query(w, pg, text, deadline);
  if (!r || PQresultStatus(r) != PGRES_COMMAND_OK)
    pg->lost = true;
  PQclear(r);
}

static struct dlk_pg *open_one(struct dlk_sql_worker *w,
                               const struct dlk_sql_place *place,
                               const char *host, const char *port,
                               int64_t deadline, struct dlk_sql_peer *self,
                               struct dlk_error *err) {
  struct dlk_pg *pg = calloc(1, sizeof *pg);
  struct params p = {.count = 0};
  struct dlk_buf secret = {0};
  unsigned turn = 0;
  dlk_buf_reserve(&secret, 4200);
  give(&p, "host", host);
  give(&p, "port", port);
  give(&p, "dbname", place->database);
  give(&p, "user", place->username);
  give(&p, "password", dlk_sql_password(w, &secret, &turn));
  give(&p, "passfile", "/nonexistent");
  give(&p, "application_name", "dlock");
  give(&p, "gssencmode", "disable");
  give(&p, "channel_binding", "prefer");
  give(&p, "target_session_attrs", "any");
  give(&p, "keepalives", "1");
  give_tls(&p, place);
  if (pg) {
    pg->place = place;
    pg->c = PQconnectStartParams(p.names, p.values, 0);
  }
  dlk_buf_wipe(&secret);
  if (!pg || !pg->c) {
    free(pg);
    dlk_error_set(err, DLK_UNAVAILABLE, "'%s': out of memory", place->shown);
    return NULL;
  }
  PQsetNoticeReceiver(pg->c, ignore, NULL);
  PQsetErrorVerbosity(pg->c, PQERRORS_VERBOSE);
  if (shake_hands(w, pg, deadline, err) && PQsetnonblocking(pg->c, 1) == 0 &&
      greet(w, pg, deadline, self, err))
    return pg;
  if (err->code == DLK_DENIED)
    dlk_sql_password_refused(w, turn, err->text);
  dlk_pg_close(pg);
  return NULL;
}

/* ---- all hosts ---- */

static size_t count_of(const char *list) {
  size_t n = 1;
  for (; *list; list++)
    n += *list == ',';
  return n;
}

/* The i-th of a list with commas. */
static void pick(const char *list, size_t i, char out[256]) {
  while (i > 0 && (list = strchr(list, ',')) != NULL) {
    list++;
    i--;
  }
  snprintf(out, 256, "%.*s", list ? (int)strcspn(list, ",") : 0,
           list ? list : "");
}

void *dlk_pg_open(struct dlk_sql_worker *w, const struct dlk_sql_place *place,
                  int64_t deadline, struct dlk_sql_peer *self,
                  struct dlk_error *err) {
  size_t count = place->hosts[0] == '/' ? 1 : count_of(place->hosts);
  for (size_t i = 0; i < count; i++) {
    char host[256], port[256];
    pick(place->hosts, i, host);
    pick(place->ports, i, port);
    int64_t now = dlk_clock_now();
    int64_t share = (deadline - now) / (int64_t)(count - i);
    struct dlk_pg *pg = open_one(w, place, count == 1 ? place->hosts : host,
                                 port, dlk_time_add(now, share), self, err);
    if (pg)
      return pg;
  }
  return NULL;
}

void dlk_pg_close(void *connection) {
  struct dlk_pg *pg = connection;
  PQfinish(pg->c);
  free(pg);
}

int dlk_pg_fd(void *connection) {
  struct dlk_pg *pg = connection;
  return pg->lost ? -1 : PQsocket(pg->c);
}

/* ---- requests ---- */

static void drain(struct dlk_sql_worker *w, struct dlk_pg *pg) {
  PGnotify *n;
  while ((n = PQnotifies(pg->c)) != NULL) {
    if (n->extra[0])
      dlk_sql_heard(w, n->extra);
    PQfreemem(n);
  }
}

/* False: lost. */
static bool flush(struct dlk_sql_worker *w, struct dlk_pg *pg,
                  int64_t deadline) {
  int left;
  while ((left = PQflush(pg->c)) > 0) {
    if (!dlk_sql_wait(w, PQsocket(pg->c), POLLIN | POLLOUT, deadline) ||
        !PQconsumeInput(pg->c))
      return false;
  }
  return left == 0;
}

PGresult *dlk_pg_await(struct dlk_sql_worker *w, struct dlk_pg *pg,
                       int64_t deadline) {
  PGresult *kept = NULL, *r;
  bool ok = flush(w, pg, deadline);
  do {
    while (ok && PQisBusy(pg->c))
      ok = dlk_sql_wait(w, PQsocket(pg->c), POLLIN, deadline) &&
           PQconsumeInput(pg->c);
    r = ok ? PQgetResult(pg->c) : NULL;
    if (r && kept && PQresultStatus(kept) == PGRES_FATAL_ERROR) {
      PQclear(r);
    } else if (r) {
      PQclear(kept);
      kept = r;
    }
  } while (r);
  if (!ok || PQstatus(pg->c) == CONNECTION_BAD) {
    pg->lost = true;
    PQclear(kept);
    return NULL;
  }
  drain(w, pg);
  return kept;
}

PGresult *dlk_pg_query(struct dlk_sql_worker *w, struct dlk_pg *pg,
                       const char *text, int64_t deadline) {
  if (!PQsendQuery(pg->c, text)) {
    pg->lost = true;
    return NULL;
  }
  return dlk_pg_await(w, pg, deadline);
}

int64_t dlk_pg_number(const PGresult *r, int row, int column,
                      int64_t otherwise) {
  if (row >= PQntuples(r) || column >= PQnfields(r) ||
      PQgetisnull(r, row, column))
    return otherwise;
  return strtoll(PQgetvalue(r, row, column), NULL, 10);
}

bool dlk_pg_hear(struct dlk_sql_worker *w, void *connection) {
  struct dlk_pg *pg = connection;
  if (!PQconsumeInput(pg->c) || PQstatus(pg->c) == CONNECTION_BAD)
    pg->lost = true;
  else
    drain(w, pg);
  return !pg->lost;
}

int dlk_pg_listen(struct dlk_sql_worker *w, void *connection,
                  int64_t deadline) {
  struct dlk_pg *pg = connection;
  char text[200];
  if (pg->proxied)
    return 0;
  snprintf(
      text, sizeof text,
      "SELECT pg_advisory_lock_shared(('x%s')::bit(64)::bigint); LISTEN %s",
      strchr(pg->place->listen, '_') + 1, pg->place->listen);
  PGresult *r = dlk_pg_query(w, pg, text, deadline);
  bool listens = r && PQresultStatus(r) == PGRES_COMMAND_OK;
  PQclear(r);
  if (!listens)
    return pg->lost ? -1 : 0;
  snprintf(text, sizeof text, "NOTIFY %s", pg->place->listen);
  if (!PQsendQuery(pg->c, text)) {
    pg->lost = true;
    return -1;
  }
  int heard = 0;
  bool ok = flush(w, pg, deadline);
  while (ok && PQisBusy(pg->c))
    ok = dlk_sql_wait(w, PQsocket(pg->c), POLLIN, deadline) &&
         PQconsumeInput(pg->c);
  while (ok && (r = PQgetResult(pg->c)) != NULL)
    PQclear(r);
  for (PGnotify *n; ok && (n = PQnotifies(pg->c)) != NULL; PQfreemem(n))
    heard = 1;
  pg->lost = pg->lost || !ok || PQstatus(pg->c) == CONNECTION_BAD;
  return pg->lost ? -1 : heard;
}

bool dlk_pg_end(struct dlk_sql_worker *w, void *connection,
                const struct dlk_sql_peer *peer, int64_t deadline) {
  struct dlk_pg *pg = connection;
  char text[320];
  if (peer->id < 0 || pg->proxied)
    return false;
  for (bool asks = true;; asks = false) {
    snprintf(text, sizeof text,
             "SELECT %s FROM pg_stat_activity WHERE pid = %lld"
             " AND (extract(epoch FROM backend_start) * 1000000)::bigint"
             " = %lld",
             asks ? "pg_terminate_backend(pid)" : "1", (long long)peer->id,
             (long long)peer->since);
    PGresult *r = dlk_pg_query(w, pg, text, deadline);
    bool answered = r && PQresultStatus(r) == PGRES_TUPLES_OK;
    bool gone = answered && PQntuples(r) == 0;
    PQclear(r);
    if (gone || !answered)
      return gone;
    if (dlk_clock_now() >= deadline)
      return false;
    (void)dlk_sql_wait(w, -1, 0, dlk_clock_now() + 5 * DLK_MS);
  }
}
