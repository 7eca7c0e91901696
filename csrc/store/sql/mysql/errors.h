/* What the numbers of errors mean, the server's and the library's: one table.
 */
#ifndef DLK_STORE_SQL_MYSQL_ERRORS_H
#define DLK_STORE_SQL_MYSQL_ERRORS_H

#include "store/sql/client/dialect.h"

struct dlk_my_error {
  unsigned number;
  enum dlk_sql_verdict verdict;
  enum dlk_code code;
  bool leave;  /* this connection: it is over, or the wrong server's */
  bool schema; /* our tables or procedures may be missing */
};

/* The last entry stands for all others. */
const struct dlk_my_error *dlk_my_error_find(unsigned number);
/* The library's own: the connection is over. */
bool dlk_my_error_is_local(unsigned number);

#endif
