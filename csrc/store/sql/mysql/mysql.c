/* The MySQL and MariaDB store: checks open()'s options, and puts the recipe on
 * libmariadb. */
#include "store/sql/mysql/mysql.h"

#include "mysql_schema.h"
#include "store/sql/client/place.h"
#include "store/sql/mysql/connection.h"
#include "store/sql/mysql/run.h"
#include "store/sql/recipe/recipe.h"

#define PORT 3306

static const struct dlk_sql_dialect dialect = {.name = "mysql",
                                               .bytes = "UNHEX(?)",
                                               .open = dlk_my_open,
                                               .close = dlk_my_close,
                                               .run = dlk_my_run,
                                               .end = dlk_my_end,
                                               .listen = dlk_my_listen,
                                               .hear = dlk_my_hear,
                                               .fd = dlk_my_fd};

static enum dlk_code check(const struct dlk_conf *conf, const char *tables,
                           struct dlk_error *err) {
  static const char *const known[] = {"tables", "database", "tls",
                                      "tls_library", NULL};
  if (!dlk_option_text(&conf->options, "database"))
    return dlk_conf_refuse(err, DLK_INVALID, conf,
                           "names no database, as in mysql://host/database");
  if (!dlk_sql_is_plain(tables, 32))
    return dlk_conf_refuse(
        err, DLK_INVALID, conf,
        "how tables' names begin has small letters, digits and _");
  enum dlk_code code = dlk_sql_check_tls(conf, "for MySQL", err);
  return code != DLK_OK
             ? code
             : dlk_option_check(&conf->options, known, conf->shown, err);
}

static bool make_place(const struct dlk_conf *conf, const char *tables,
                       struct dlk_sql_place *p) {
  struct dlk_buf port = {0};
  unsigned given = conf->hosts[0].port;
  bool ok = dlk_sql_place_fill(p, conf, "mysqls", tables, dlk_mysql_schema);
  dlk_buf_addf(&port, "%u", given ? given : PORT);
  ok = dlk_sql_place_take(&p->ports, &port) && ok;
  return dlk_sql_place_set(&p->hosts, conf->hosts[0].host) && ok;
}

static enum dlk_code create(struct dlk_host *host, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  const char *given = dlk_option_text(&conf->options, "tables");
  const char *tables = given ? given : "dlock_";
  struct dlk_sql_place places[2];
  enum dlk_code code = check(conf, tables, err);
  if (code != DLK_OK)
    return code;
  bool ok = make_place(conf, tables, &places[0]);
  ok = make_place(conf, tables, &places[1]) && ok;
  return dlk_sql_create(host, conf, &dialect, ok, places, true, out, err);
}

const struct dlk_store_type dlk_mysql_store =
    DLK_SQL_STORE("mysql", dlk_mysql_schema, create);
