/* The floor under `make bench` on PostgreSQL, as a worker of bench/crowd.lua:
 * what people write by hand, over libpq, with prepared statements.
 *
 *   floor_postgres CONNINFO pairs|advisory|row
 *       a key of its own: a row with a lease (taken if it is over, and given
 *       back); an advisory lock; a row that a transaction locks FOR UPDATE
 *   floor_postgres CONNINFO handoff|handoff-advisory|handoff-row MS
 *       one of many that want the same, and hold it for MS each. Who waits for
 *       a lease is woken by NOTIFY; all are, and the first one gets it. */
#include "floor_sql.h"
#include <libpq-fe.h>
#include <poll.h>
#include <unistd.h>

static PGconn *pg;
static char key[32], token[32];

static PGresult *run(const char *name, int count) {
  const char *values[] = {key, token};
  PGresult *r = PQexecPrepared(pg, name, count, values, NULL, NULL, 0);
  ExecStatusType status = PQresultStatus(r);
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
    fprintf(stderr, "floor_postgres: %s", PQerrorMessage(pg));
    exit(1);
  }
  return r;
}

static bool done(const char *name, int count) {
  PGresult *r = run(name, count);
  bool any = PQntuples(r) > 0;
  PQclear(r);
  return any;
}

static void plain(const char *sql) {
  PGresult *r = PQexec(pg, sql);
  ExecStatusType status = PQresultStatus(r);
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
    fprintf(stderr, "floor_postgres: %s", PQerrorMessage(pg));
    exit(1);
  }
  PQclear(r);
}

static void prepare(const char *name, const char *sql) {
  PGresult *r = PQprepare(pg, name, sql, 0, NULL);
  if (PQresultStatus(r) != PGRES_COMMAND_OK) {
    fprintf(stderr, "floor_postgres: %s", PQerrorMessage(pg));
    exit(1);
  }
  PQclear(r);
}

/* A message, or 100 ms: another one may have taken what it told of. */
static void await_news(void) {
  struct pollfd one = {.fd = PQsocket(pg), .events = POLLIN};
  PGnotify *news;
  PQconsumeInput(pg);
  bool told = false;
  for (; (news = PQnotifies(pg)) != NULL; told = true)
    PQfreemem(news);
  if (!told)
    poll(&one, 1, 100);
}

static void take_lease(bool waits) {
  while (!done("take", 2) && waits)
    await_news();
}

static void give_lease(bool tells) {
  done(tells ? "tell" : "give", 2);
}

static void take_advisory(bool waits) {
  done(waits ? "wait" : "try", 1);
}

static void give_advisory(bool tells) {
  (void)tells;
  done("unlock", 1);
}

static void take_row(bool waits) {
  (void)waits;
  plain("BEGIN");
  done("row", 1);
}

static void give_row(bool tells) {
  (void)tells;
  plain("COMMIT");
}

static const struct floor_way ways[] = {
    {"pairs", take_lease, give_lease},
    {"advisory", take_advisory, give_advisory},
    {"row", take_row, give_row},
    {"handoff", take_lease, give_lease},
    {"handoff-advisory", take_advisory, give_advisory},
    {"handoff-row", take_row, give_row}};

static void make_ready(bool handing) {
  plain("SET client_min_messages = warning");
  /* Several workers begin at once. */
  plain("SELECT pg_advisory_lock(1)");
  plain("CREATE TABLE IF NOT EXISTS floor (id text PRIMARY KEY,"
        " token text NOT NULL, fence bigint NOT NULL, until timestamptz NOT"
        " NULL) WITH (fillfactor = 50)");
  plain("SELECT pg_advisory_unlock(1)");
  prepare("take",
          "INSERT INTO floor AS f VALUES ($1, $2, 1, clock_timestamp() +"
          " interval '30 s') ON CONFLICT (id) DO UPDATE SET token = $2,"
          " fence = f.fence + 1, until = clock_timestamp() + interval '30 s'"
          " WHERE f.until <= clock_timestamp() RETURNING fence");
  prepare("give", "UPDATE floor SET until = 'epoch' WHERE id = $1 AND token ="
                  " $2 RETURNING 1");
  prepare("tell", "UPDATE floor SET until = 'epoch' WHERE id = $1 AND token ="
                  " $2 RETURNING pg_notify('floor', '')");
  prepare("try", "SELECT pg_try_advisory_lock(hashtextextended($1, 0))");
  prepare("wait", "SELECT pg_advisory_lock(hashtextextended($1, 0))");
  prepare("unlock", "SELECT pg_advisory_unlock(hashtextextended($1, 0))");
  prepare("row", "SELECT 1 FROM floor WHERE id = $1 FOR UPDATE");
  snprintf(token, sizeof token, "%ld", (long)getpid());
  snprintf(key, sizeof key, "%s", handing ? "all" : token);
  PQclear(PQexecParams(pg,
                       "INSERT INTO floor VALUES ($1, '', 0, 'epoch') ON"
                       " CONFLICT DO NOTHING",
                       1, NULL, (const char *const[]){key}, NULL, NULL, 0));
  if (handing)
    plain("LISTEN floor");
}

static void start(char **argv, bool handing) {
  pg = PQconnectdb(argv[1]);
  if (PQstatus(pg) != CONNECTION_OK) {
    fprintf(stderr, "floor_postgres: %s", PQerrorMessage(pg));
    exit(1);
  }
  make_ready(handing);
}

int main(int argc, char **argv) {
  static const char usage[] = "usage: floor_postgres CONNINFO"
                              " pairs|advisory|row\n"
                              "       floor_postgres CONNINFO"
                              " handoff|handoff-advisory|handoff-row MS\n";
  int status =
      floor_run(ways, sizeof ways / sizeof *ways, argc, argv, 2, usage, start);
  PQfinish(pg);
  return status;
}
