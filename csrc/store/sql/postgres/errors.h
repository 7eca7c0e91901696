/* What the server's SQLSTATEs mean: one table. */
#ifndef DLK_STORE_SQL_POSTGRES_ERRORS_H
#define DLK_STORE_SQL_POSTGRES_ERRORS_H

#include "store/sql/client/dialect.h"

struct dlk_pg_error {
  const char *state; /* or how it begins */
  enum dlk_sql_verdict verdict;
  enum dlk_code code;
  bool leave;  /* this server: it may not be the one to ask */
  bool schema; /* our tables or functions may be missing */
};

/* The last entry stands for all others. */
const struct dlk_pg_error *dlk_pg_error_find(const char *state);
/* The server's words without their severity and place; `state` is filled in, or
 * empty. text: of a connection with PQERRORS_VERBOSE. */
void dlk_pg_error_read(const char *text, char state[6], char *out, size_t room);

#endif
