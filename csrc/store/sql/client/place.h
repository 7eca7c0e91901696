/* Where a server is, out of open()'s options: what every dialect needs of them.
 */
#ifndef DLK_STORE_SQL_CLIENT_PLACE_H
#define DLK_STORE_SQL_CLIENT_PLACE_H

#include "store/host.h"
#include "store/sql/client/dialect.h"

/* The url's database and account, TLS and the time-outs; not its hosts and
 * ports. secure: the scheme with TLS. False: out of memory. */
bool dlk_sql_place_fill(struct dlk_sql_place *p, const struct dlk_conf *conf,
                        const char *secure, const char *schema,
                        const char *script);
/* Copies a text, or NULL. False: out of memory. */
bool dlk_sql_place_set(char **to, const char *text);
/* Takes the text of a buffer. False: out of memory. */
bool dlk_sql_place_take(char **to, struct dlk_buf *from);
/* False: out of memory, and there is nothing to free. */
bool dlk_sql_place_copy(struct dlk_sql_place *to,
                        const struct dlk_sql_place *from);
void dlk_sql_place_free(struct dlk_sql_place *p);

/* Of the option `name`, which is a table; or NULL. */
const char *dlk_sql_option(const struct dlk_conf *conf, const char *name,
                           const char *key);
/* The name of a schema or of tables stands in the routines' texts. */
bool dlk_sql_is_plain(const char *name, size_t most);
/* Refuses options of TLS that no client library for a database has. `where`:
 * "for MySQL". */
enum dlk_code dlk_sql_check_tls(const struct dlk_conf *conf, const char *where,
                                struct dlk_error *err);

/* What the script makes: each name behind a `mark`, with `prefix`, in quotes
 * and with commas. How many there are. */
size_t dlk_sql_place_names(const struct dlk_sql_place *place, const char *mark,
                           const char *prefix, struct dlk_buf *out);

#endif
