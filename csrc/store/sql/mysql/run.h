/* The statements of the recipe, and the schema that they need. */
#ifndef DLK_STORE_SQL_MYSQL_RUN_H
#define DLK_STORE_SQL_MYSQL_RUN_H

#include "store/sql/client/dialect.h"

/* In the worker's thread. */
void dlk_my_run(struct dlk_sql_worker *w, void *connection,
                struct dlk_sql_call *call);

#endif
