/* The floor under `make bench` on MariaDB, as a worker of bench/crowd.lua: what
 * people write by hand, over libmariadb, in statements that are put together
 * once.
 *
 *   floor_mysql PORT PASSWORD pairs|named|row
 *       a key of its own: a row with a lease (taken if it is over, and given
 *       back); GET_LOCK; a row that a transaction locks FOR UPDATE
 *   floor_mysql PORT PASSWORD handoff|handoff-named|handoff-row MS
 *       one of many that want the same, and hold it for MS each. Who waits for
 *       a lease asks every 10 ms. */
#include "floor_sql.h"
#include <mysql.h>
#include <unistd.h>

static MYSQL *my;
static char key[32];
static char take[1024], give[256], try_named[128], wait_named[128],
    give_named[128], lock_row[128];

/* The number of rows that a statement changed or gave. */
static unsigned long long run(const char *sql) {
  if (mysql_query(my, sql) != 0) {
    fprintf(stderr, "floor_mysql: %s\n", mysql_error(my));
    exit(1);
  }
  MYSQL_RES *rows = mysql_store_result(my);
  unsigned long long count = mysql_affected_rows(my);
  mysql_free_result(rows);
  return count;
}

static void take_lease(bool waits) {
  while (run(take) == 0 && waits)
    floor_sleep(10);
}

static void give_lease(bool tells) {
  (void)tells;
  run(give);
}

static void take_named(bool waits) {
  run(waits ? wait_named : try_named);
}

static void let_named_go(bool tells) {
  (void)tells;
  run(give_named);
}

static void take_row(bool waits) {
  (void)waits;
  run("BEGIN");
  run(lock_row);
}

static void give_row(bool tells) {
  (void)tells;
  run("COMMIT");
}

static const struct floor_way ways[] = {
    {"pairs", take_lease, give_lease},
    {"named", take_named, let_named_go},
    {"row", take_row, give_row},
    {"handoff", take_lease, give_lease},
    {"handoff-named", take_named, let_named_go},
    {"handoff-row", take_row, give_row}};

static void make_ready(bool handing) {
  char token[32], insert[128];
  snprintf(token, sizeof token, "%ld", (long)getpid());
  snprintf(key, sizeof key, "%s", handing ? "all" : token);
  run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
  run("CREATE TABLE IF NOT EXISTS floor (id VARBINARY(64) PRIMARY KEY, token"
      " VARBINARY(64) NOT NULL, fence BIGINT NOT NULL, until DATETIME(6) NOT"
      " NULL) ENGINE = InnoDB");
  /* Columns change from left to right, so `until` is the last. */
  snprintf(take, sizeof take,
           "INSERT INTO floor VALUES ('%s', '%s', 1, UTC_TIMESTAMP(6) +"
           " INTERVAL 30 SECOND) ON DUPLICATE KEY UPDATE"
           " token = IF(until <= UTC_TIMESTAMP(6), VALUES(token), token),"
           " fence = LAST_INSERT_ID(fence + (until <= UTC_TIMESTAMP(6))),"
           " until = IF(until <= UTC_TIMESTAMP(6), VALUES(until), until)",
           key, token);
  snprintf(give, sizeof give,
           "UPDATE floor SET until = '2000-01-01' WHERE id = '%s' AND token ="
           " '%s'",
           key, token);
  snprintf(try_named, sizeof try_named, "SELECT GET_LOCK('%s', 0)", key);
  snprintf(wait_named, sizeof wait_named, "SELECT GET_LOCK('%s', 60)", key);
  snprintf(give_named, sizeof give_named, "SELECT RELEASE_LOCK('%s')", key);
  snprintf(lock_row, sizeof lock_row,
           "SELECT 1 FROM floor WHERE id = '%s' FOR UPDATE", key);
  snprintf(insert, sizeof insert,
           "INSERT IGNORE INTO floor VALUES ('%s', '', 0, '2000-01-01')", key);
  run(insert);
}

static void start(char **argv, bool handing) {
  my = mysql_init(NULL);
  if (!my || !mysql_real_connect(my, "127.0.0.1", "dlock", argv[2], "dlock",
                                 (unsigned)atoi(argv[1]), NULL, 0)) {
    fprintf(stderr, "floor_mysql: %s\n", my ? mysql_error(my) : "no memory");
    exit(1);
  }
  make_ready(handing);
}

int main(int argc, char **argv) {
  static const char usage[] = "usage: floor_mysql PORT PASSWORD"
                              " pairs|named|row\n"
                              "       floor_mysql PORT PASSWORD"
                              " handoff|handoff-named|handoff-row MS\n";
  int status =
      floor_run(ways, sizeof ways / sizeof *ways, argc, argv, 3, usage, start);
  if (my)
    mysql_close(my);
  return status;
}
