/* Connecting, and the end of a lost request.
 *
 * M1  The library's calls are begun and continued in the same thread, and wait
 *     in dlk_sql_wait. A call whose time is over goes on with its socket shut
 *     down: it fails then, and frees what it has.
 * M2  All settings that the recipe relies on are made here, whatever the
 *     server's and the account's are. No file of options is read.
 * M3  A request is ended by its connection's number, if the server is still the
 *     same since its start. It is gone when the list of processes lacks it.
 *     Behind a pool the number is not ours, and nothing is ended.
 * M4  The first use of the library makes it ignore SIGPIPE in the process; what
 *     the program had set is put back. The thread blocks signals. */
#include "store/sql/mysql/connection.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "store/sql/mysql/errors.h"

#define OLDEST_MARIADB 100400
#define OLDEST_MYSQL 50700
#define STACK ((size_t)256 * 1024) /* of a call: it may look up names */
#define SAME 2 /* s between two readings of when the server started */

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start_library(void) {
  struct sigaction was;
  bool known = sigaction(SIGPIPE, NULL, &was) == 0;
  (void)mysql_library_init(0, NULL, NULL);
  if (known)
    (void)sigaction(SIGPIPE, &was, NULL);
}

/* ---- waiting (M1) ---- */

static int turn(struct dlk_sql_worker *w, struct dlk_my *my, int wants,
                int64_t deadline) {
  int fd = mysql_get_socket(&my->c);
  short events = 0;
  if (wants & MYSQL_WAIT_READ)
    events |= POLLIN;
  if (wants & MYSQL_WAIT_WRITE)
    events |= POLLOUT;
  if (wants & MYSQL_WAIT_EXCEPT)
    events |= POLLPRI;
  if (fd >= 0)
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
  if (!my->cut && fd >= 0 && dlk_sql_wait(w, fd, events, deadline))
    return wants & ~MYSQL_WAIT_TIMEOUT;
  if (!my->cut && fd >= 0)
    (void)shutdown(fd, SHUT_RDWR);
  my->cut = true;
  return wants | MYSQL_WAIT_TIMEOUT;
}

static unsigned failed(struct dlk_my *my) {
  unsigned number = mysql_errno(&my->c);
  if (my->cut || dlk_my_error_is_local(number))
    my->lost = true;
  return number ? number : 2013;
}

/* Row by row: a guarded statement's rows, which nobody wants, are not kept. */
static void read_result(struct dlk_sql_worker *w, struct dlk_my *my,
                        MYSQL_RES *r, int64_t deadline, dlk_my_each *each,
                        void *who) {
  MYSQL_ROW row = NULL;
  int wants;
  do {
    if (each)
      each(who, r, row);
    wants = mysql_fetch_row_start(&row, r);
    while (wants)
      wants = mysql_fetch_row_cont(&row, r, turn(w, my, wants, deadline));
  } while (row);
  wants = mysql_free_result_start(r);
  while (wants)
    wants = mysql_free_result_cont(r, turn(w, my, wants, deadline));
}

unsigned dlk_my_query(struct dlk_sql_worker *w, struct dlk_my *my,
                      const char *text, size_t len, int64_t deadline,
                      dlk_my_each *each, void *who) {
  MYSQL *c = &my->c;
  int bad = 0, wants = mysql_real_query_start(&bad, c, text, len);
  while (wants)
    wants = mysql_real_query_cont(&bad, c, turn(w, my, wants, deadline));
  while (bad == 0) {
    MYSQL_RES *r = mysql_use_result(c);
    if (r)
      read_result(w, my, r, deadline, each, who);
    if (mysql_errno(c) != 0)
      break;
    if (!mysql_more_results(c))
      return 0;
    wants = mysql_next_result_start(&bad, c);
    while (wants)
      wants = mysql_next_result_cont(&bad, c, turn(w, my, wants, deadline));
  }
  return failed(my);
}

/* ---- connecting ---- */

static void give_tls(MYSQL *c, const struct dlk_sql_place *place) {
  my_bool on = place->tls, verify = place->tls && place->verify;
  (void)mysql_options(c, MYSQL_OPT_SSL_ENFORCE, &on);
  (void)mysql_options(c, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
  if (!place->tls)
    return;
  if (place->verify && place->cafile)
    (void)mysql_options(c, MYSQL_OPT_SSL_CA, place->cafile);
  if (place->cert) {
    (void)mysql_options(c, MYSQL_OPT_SSL_CERT, place->cert);
    (void)mysql_options(c, MYSQL_OPT_SSL_KEY,
                        place->key ? place->key : place->cert);
  }
  if (place->key_password)
    (void)mysql_options(c, MARIADB_OPT_TLS_PASSPHRASE, place->key_password);
  bool newest = place->min_version && strcmp(place->min_version, "1.3") == 0;
  (void)mysql_options(c, MARIADB_OPT_TLS_VERSION,
                      newest ? "TLSv1.3" : "TLSv1.2,TLSv1.3");
}

static void fail(const struct dlk_my *my, struct dlk_error *err,
                 unsigned number) {
  MYSQL *c = (MYSQL *)(uintptr_t)&my->c;
  if (my->cut) {
    dlk_error_set(err, DLK_UNAVAILABLE, "'%s': it does not answer",
                  my->place->shown);
    return;
  }
  enum dlk_code code = dlk_my_error_find(number)->code;
  if (number == 2026) /* a certificate, as a rule */
    code = DLK_DENIED;
  dlk_error_set(err, code, "'%s': %.250s", my->place->shown, mysql_error(c));
}

static bool shake_hands(struct dlk_sql_worker *w, struct dlk_my *my,
                        const char *password, int64_t deadline) {
  const struct dlk_sql_place *place = my->place;
  bool local = place->hosts[0] == '/';
  unsigned protocol = local ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;
  unsigned files = 0;
  size_t stack = STACK;
  MYSQL *c = &my->c, *done = NULL;
  (void)mysql_options(c, MYSQL_OPT_NONBLOCK, &stack);
  (void)mysql_options(c, MYSQL_OPT_PROTOCOL, &protocol);
  (void)mysql_options(c, MYSQL_OPT_LOCAL_INFILE, &files);
  (void)mysql_options(c, MYSQL_SET_CHARSET_NAME, "utf8mb4");
  (void)mysql_optionsv(c, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "dlock");
  if (!place->tls && !local) /* none that sends the password itself */
    (void)mysql_options(c, MARIADB_OPT_RESTRICTED_AUTH,
                        "mysql_native_password,client_ed25519,"
                        "caching_sha2_password,sha256_password");
  give_tls(c, place);
  int wants = mysql_real_connect_start(
      &done, c, local ? NULL : place->hosts,
      place->username ? place->username : "", password ? password : "",
      place->database, (unsigned)strtoul(place->ports, NULL, 10),
      local ? place->hosts : NULL,
      CLIENT_MULTI_STATEMENTS | CLIENT_MULTI_RESULTS | CLIENT_FOUND_ROWS);
  while (wants)
    wants = mysql_real_connect_cont(&done, c, turn(w, my, wants, deadline));
  if (done)
    (void)fcntl(mysql_get_socket(c), F_SETFD, FD_CLOEXEC);
  return done && !my->cut;
}

struct hello {
  int64_t id, now, uptime, packet;
  bool reads_only, logs, by_statement;
};

/* Names and values. */
static void read_hello(void *who, MYSQL_RES *r, MYSQL_ROW row) {
  struct hello *h = who;
  if (!row || mysql_num_fields(r) != 2)
    return;
  const char *name = row[0] ? row[0] : "", *value = row[1] ? row[1] : "";
  bool off = strcmp(value, "OFF") == 0 || strcmp(value, "0") == 0;
  if (strcmp(name, "id") == 0)
    h->id = strtoll(value, NULL, 10);
  else if (strcmp(name, "now") == 0)
    h->now = strtoll(value, NULL, 10);
  else if (strcmp(name, "Uptime") == 0)
    h->uptime = strtoll(value, NULL, 10);
  else if (strcmp(name, "max_allowed_packet") == 0)
    h->packet = strtoll(value, NULL, 10);
  else if (strcmp(name, "log_bin") == 0)
    h->logs = !off;
  else if (strcmp(name, "binlog_format") == 0)
    h->by_statement = strcmp(value, "STATEMENT") == 0;
  else
    h->reads_only = h->reads_only || !off;
}

/* M2 */
#define SETTINGS                                                               \
  "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;"        \
  "SET SESSION autocommit=1, completion_type=0, sql_mode='',"                  \
  " sql_safe_updates=0, sql_select_limit=18446744073709551615,"                \
  " wait_timeout=300,"                                                         \
  " innodb_lock_wait_timeout=1, lock_wait_timeout=1;"
#define WHO                                                                    \
  "SHOW GLOBAL STATUS LIKE 'Uptime';"                                          \
  "SELECT 'id', CONNECTION_ID() UNION ALL SELECT 'now', UNIX_TIMESTAMP()"

static bool greet(struct dlk_sql_worker *w, struct dlk_my *my, int64_t deadline,
                  struct dlk_sql_peer *self, struct dlk_error *err) {
  static const char text[] =
      SETTINGS "SHOW VARIABLES WHERE Variable_name IN"
               " ('read_only', 'innodb_read_only', 'log_bin', 'binlog_format',"
               " 'max_allowed_packet');" WHO;
  struct hello h = {0};
  unsigned long version = mysql_get_server_version(&my->c);
  if (version < (mariadb_connection(&my->c) ? OLDEST_MARIADB : OLDEST_MYSQL)) {
    dlk_error_set(err, DLK_UNSUPPORTED,
                  "'%s': dlock needs MariaDB 10.4, MySQL 5.7 or newer",
                  my->place->shown);
    return false;
  }
  unsigned bad =
      dlk_my_query(w, my, text, sizeof text - 1, deadline, read_hello, &h);
  if (bad) {
    fail(my, err, bad);
    return false;
  }
  my->proxied = (uint64_t)h.id != mysql_thread_id(&my->c);
  self->id = my->proxied ? -1 : h.id;
  self->since = h.now - h.uptime;
  my->packet = h.packet > 0 ? (size_t)h.packet : SIZE_MAX;
  if (h.reads_only)
    dlk_error_set(err, DLK_UNAVAILABLE,
                  "'%s': the server is read-only (a replica?)",
                  my->place->shown);
  else if (h.logs && h.by_statement)
    dlk_error_set(err, DLK_INVALID,
                  "'%s': dlock needs binlog_format=ROW or MIXED, because with "
                  "STATEMENT InnoDB refuses what it does",
                  my->place->shown);
  return err->code == DLK_OK;
}

/* By the same login once more: mysql_reset_connection keeps the database and
 * the role. */
void dlk_my_reset(struct dlk_sql_worker *w, struct dlk_my *my,
                  int64_t deadline) {
  static const char text[] = SETTINGS "DO 0";
  const struct dlk_sql_place *place = my->place;
  struct dlk_buf secret = {0};
  unsigned turns = 0;
  my_bool bad = 0;
  dlk_buf_reserve(&secret, 4200);
  const char *password = dlk_sql_password(w, &secret, &turns);
  int wants = mysql_change_user_start(
      &bad, &my->c, place->username ? place->username : "",
      password ? password : "", place->database);
  while (wants)
    wants = mysql_change_user_cont(&bad, &my->c, turn(w, my, wants, deadline));
  dlk_buf_wipe(&secret);
  if (bad || dlk_my_query(w, my, text, sizeof text - 1, deadline, NULL, NULL))
    my->lost = true;
}

void *dlk_my_open(struct dlk_sql_worker *w, const struct dlk_sql_place *place,
                  int64_t deadline, struct dlk_sql_peer *self,
                  struct dlk_error *err) {
  struct dlk_my *my = calloc(1, sizeof *my);
  struct dlk_buf secret = {0};
  unsigned turns = 0;
  (void)pthread_once(&once, start_library);
  if (!my || !mysql_init(&my->c)) {
    free(my);
    dlk_error_set(err, DLK_UNAVAILABLE, "'%s': out of memory", place->shown);
    return NULL;
  }
  my->place = place;
  dlk_buf_reserve(&secret, 4200);
  *err = (struct dlk_error){0};
  bool met = shake_hands(w, my, dlk_sql_password(w, &secret, &turns), deadline);
  dlk_buf_wipe(&secret);
  if (!met)
    fail(my, err, mysql_errno(&my->c));
  else if (greet(w, my, deadline, self, err))
    return my;
  if (err->code == DLK_DENIED)
    dlk_sql_password_refused(w, turns, err->text);
  dlk_my_close(my);
  return NULL;
}

void dlk_my_close(void *connection) {
  struct dlk_my *my = connection;
  mysql_close(&my->c);
  free(my);
}

int dlk_my_fd(void *connection) {
  struct dlk_my *my = connection;
  return my->lost ? -1 : mysql_get_socket(&my->c);
}

/* The server says nothing by itself but that it hangs up. */
bool dlk_my_hear(struct dlk_sql_worker *w, void *connection) {
  struct dlk_my *my = connection;
  (void)w;
  my->lost = true;
  return false;
}

int dlk_my_listen(struct dlk_sql_worker *w, void *connection,
                  int64_t deadline) {
  (void)w;
  (void)connection;
  (void)deadline;
  return 0;
}

/* ---- the end of a lost request (M3) ---- */

static void count_rows(void *who, MYSQL_RES *r, MYSQL_ROW row) {
  uint64_t *rows = who;
  (void)r;
  *rows = row ? *rows + 1 : 0;
}

bool dlk_my_end(struct dlk_sql_worker *w, void *connection,
                const struct dlk_sql_peer *peer, int64_t deadline) {
  struct dlk_my *my = connection;
  struct hello h = {0};
  char text[120];
  if (peer->id < 0 || my->proxied ||
      dlk_my_query(w, my, WHO, sizeof WHO - 1, deadline, read_hello, &h))
    return false;
  if (llabs(h.now - h.uptime - peer->since) > SAME)
    return true;
  int n = snprintf(text, sizeof text, "KILL %lld", (long long)peer->id);
  unsigned bad = dlk_my_query(w, my, text, (size_t)n, deadline, NULL, NULL);
  if (bad)
    return bad == 1094; /* there is none */
  n = snprintf(text, sizeof text,
               "SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = %lld",
               (long long)peer->id);
  for (;;) {
    uint64_t rows = 1;
    if (dlk_my_query(w, my, text, (size_t)n, deadline, count_rows, &rows))
      return false;
    if (rows == 0 || dlk_clock_now() >= deadline)
      return rows == 0;
    (void)dlk_sql_wait(w, -1, 0, dlk_clock_now() + 5 * DLK_MS);
  }
}
