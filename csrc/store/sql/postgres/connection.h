/* A connection by libpq, used without blocking. In the worker's thread. */
#ifndef DLK_STORE_SQL_POSTGRES_CONNECTION_H
#define DLK_STORE_SQL_POSTGRES_CONNECTION_H

#include <libpq-fe.h>

#include "store/sql/client/dialect.h"

/* Numbers behind those of the recipe: what may do an acquire or a leave. */
enum { DLK_PG_TAKE = DLK_SQL_SWEEP + 1, DLK_PG_GIVE, DLK_PG_STATEMENTS };

/* A statement that a connection runs a second time is prepared there. */
enum dlk_pg_known { DLK_PG_NEW, DLK_PG_RAN, DLK_PG_PREPARED, DLK_PG_NEVER };

struct dlk_pg {
  PGconn *c;
  const struct dlk_sql_place *place;
  enum dlk_pg_known known[DLK_PG_STATEMENTS];
  bool lost;
  bool proxied; /* its number is not the server's: a pool is in between */
};

void *dlk_pg_open(struct dlk_sql_worker *w, const struct dlk_sql_place *place,
                  int64_t deadline, struct dlk_sql_peer *self,
                  struct dlk_error *err);
void dlk_pg_close(void *connection);
int dlk_pg_fd(void *connection);
bool dlk_pg_hear(struct dlk_sql_worker *w, void *connection);
int dlk_pg_listen(struct dlk_sql_worker *w, void *connection, int64_t deadline);
bool dlk_pg_end(struct dlk_sql_worker *w, void *connection,
                const struct dlk_sql_peer *peer, int64_t deadline);

/* Makes the session as it was at first, or loses the connection. */
void dlk_pg_reset(struct dlk_sql_worker *w, struct dlk_pg *pg,
                  int64_t deadline);

/* The last result of what was sent, or the first bad one; NULL: the connection
 * is lost, or the deadline passed, which loses it. */
PGresult *dlk_pg_await(struct dlk_sql_worker *w, struct dlk_pg *pg,
                       int64_t deadline);
/* A statement without parameters, or several; as await. */
PGresult *dlk_pg_query(struct dlk_sql_worker *w, struct dlk_pg *pg,
                       const char *text, int64_t deadline);
/* A column of numbers in a result of text. */
int64_t dlk_pg_number(const PGresult *r, int row, int column,
                      int64_t otherwise);

#endif
