/* A connection by libmariadb, used without blocking. In the worker's thread. */
#ifndef DLK_STORE_SQL_MYSQL_CONNECTION_H
#define DLK_STORE_SQL_MYSQL_CONNECTION_H

#include <mysql.h>

#include "store/sql/client/dialect.h"

struct dlk_my {
  MYSQL c;
  const struct dlk_sql_place *place;
  bool cut; /* its time is over: its socket is shut down */
  bool lost;
  size_t packet; /* bytes that the server takes of a statement */
  bool proxied;  /* its number is not the server's: a pool is in between */
};

void *dlk_my_open(struct dlk_sql_worker *w, const struct dlk_sql_place *place,
                  int64_t deadline, struct dlk_sql_peer *self,
                  struct dlk_error *err);
void dlk_my_close(void *connection);
int dlk_my_fd(void *connection);
bool dlk_my_hear(struct dlk_sql_worker *w, void *connection);
int dlk_my_listen(struct dlk_sql_worker *w, void *connection, int64_t deadline);
bool dlk_my_end(struct dlk_sql_worker *w, void *connection,
                const struct dlk_sql_peer *peer, int64_t deadline);

/* Makes the session as it was at first, or loses the connection. */
void dlk_my_reset(struct dlk_sql_worker *w, struct dlk_my *my,
                  int64_t deadline);

/* One row of a result; NULL: a result begins. */
typedef void dlk_my_each(void *who, MYSQL_RES *result, MYSQL_ROW row);

/* Runs statements, and hands their rows to `each` (or NULL). 0, or the first
 * error's number; the deadline, as all of the library's errors, loses the
 * connection. */
unsigned dlk_my_query(struct dlk_sql_worker *w, struct dlk_my *my,
                      const char *text, size_t len, int64_t deadline,
                      dlk_my_each *each, void *who);

#endif
