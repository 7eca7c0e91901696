/* Calls: how they are made and their answers read. */
#ifndef DLK_STORE_SQL_CLIENT_CALL_H
#define DLK_STORE_SQL_CLIENT_CALL_H

#include "store/sql/client/dialect.h"

/* A call; NULL: no memory. */
struct dlk_sql_call *dlk_sql_call_new(enum dlk_sql_statement statement,
                                      void (*answer)(struct dlk_sql_call *),
                                      void *who);
void dlk_sql_call_free(struct dlk_sql_call *call);
void dlk_sql_put_bytes(struct dlk_sql_call *call, const void *p, size_t len);
void dlk_sql_put_number(struct dlk_sql_call *call, int64_t number);
void dlk_sql_put_null(struct dlk_sql_call *call);

/* The answer's cells; row and column are checked. */
int64_t dlk_sql_number(const struct dlk_sql_call *call, size_t row,
                       size_t column, int64_t otherwise);
/* NULL: SQL's NULL. */
const char *dlk_sql_bytes(const struct dlk_sql_call *call, size_t row,
                          size_t column, size_t *len);

#endif
