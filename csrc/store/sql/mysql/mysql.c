/* The MySQL and MariaDB store: checks open()'s options, and puts the recipe on
 * libmariadb. */
#include "store/sql/mysql/mysql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mysql_schema.h"
#include "store/sql/mysql/connection.h"
#include "store/sql/mysql/run.h"
#include "store/sql/recipe/recipe.h"

#define PORT 3306

static const struct dlk_sql_dialect dialect = {.name = "mysql",
                                               .open = dlk_my_open,
                                               .close = dlk_my_close,
                                               .run = dlk_my_run,
                                               .end = dlk_my_end,
                                               .listen = dlk_my_listen,
                                               .hear = dlk_my_hear,
                                               .fd = dlk_my_fd};

static enum dlk_code fail(struct dlk_error *err, enum dlk_code code,
                          const struct dlk_conf *conf, const char *why) {
  return dlk_error_set(err, code, "%s: %s", conf->shown, why);
}

/* Stands in the procedures' texts, so it is a plain name. */
static bool is_plain(const char *name) {
  return name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0' &&
         strlen(name) <= 32 && !(name[0] >= '0' && name[0] <= '9');
}

static enum dlk_code check(const struct dlk_conf *conf, const char *tables,
                           struct dlk_error *err) {
  static const char *const known[] = {"tables",      "database", "tls",
                                      "tls_library", "insecure", NULL};
  static const char *const lacks[] = {"capath", "key_password_file",
                                      "server_name", "ciphers", "ciphersuites"};
  char text[160];
  if (!dlk_option_text(&conf->options, "database"))
    return fail(err, DLK_INVALID, conf,
                "names no database, as in mysql://host/database");
  if (!is_plain(tables) || !tables[0])
    return fail(err, DLK_INVALID, conf,
                "how tables' names begin has small letters, digits and _");
  for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++)
    if (dlk_option_find(&conf->options, "tls", lacks[i])) {
      snprintf(text, sizeof text, "tls.%s is not for MySQL", lacks[i]);
      return fail(err, DLK_UNSUPPORTED, conf, text);
    }
  return dlk_option_check(&conf->options, known, conf->shown, err);
}

static const char *option(const struct dlk_conf *conf, const char *name,
                          const char *key) {
  const struct dlk_option *o = dlk_option_find(&conf->options, name, key);
  return o ? o->text : NULL;
}

static bool set(char **to, const char *text) {
  *to = text ? strdup(text) : NULL;
  return !text || *to;
}

static bool take(char **to, struct dlk_buf *from) {
  dlk_buf_add(from, "", 1);
  *to = from->failed ? NULL : from->data;
  if (!*to)
    dlk_buf_free(from);
  return *to != NULL;
}

static bool make_place(const struct dlk_conf *conf, const char *tables,
                       struct dlk_sql_place *p) {
  const struct dlk_option *verify =
      dlk_option_find(&conf->options, "tls", "verify");
  struct dlk_buf port = {0};
  unsigned given = conf->hosts[0].port;
  dlk_buf_addf(&port, "%u", given ? given : PORT);
  p->script = dlk_mysql_schema;
  p->tls = strcmp(conf->scheme, "mysqls") == 0;
  p->verify = !verify || verify->number != 0;
  p->connect_timeout = conf->connect_timeout;
  p->io_timeout = conf->io_timeout;
  p->secret = conf->secret;
  bool ok = take(&p->ports, &port);
  ok = set(&p->hosts, conf->hosts[0].host) && ok;
  ok = set(&p->schema, tables) && ok;
  ok = set(&p->database, dlk_option_text(&conf->options, "database")) && ok;
  ok = set(&p->username, conf->username) && ok;
  ok = set(&p->password, conf->password) && ok;
  ok = set(&p->shown, conf->shown) && ok;
  ok = set(&p->cafile, option(conf, "tls", "cafile")) && ok;
  ok = set(&p->cert, option(conf, "tls", "cert")) && ok;
  ok = set(&p->key, option(conf, "tls", "key")) && ok;
  ok = set(&p->key_password, option(conf, "tls", "key_password")) && ok;
  return set(&p->min_version, option(conf, "tls", "min_version")) && ok;
}

static enum dlk_code create(struct dlk_host *host, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  const char *given = dlk_option_text(&conf->options, "tables");
  const char *tables = given ? given : "dlock_";
  enum dlk_code code = check(conf, tables, err);
  if (code != DLK_OK)
    return code;
  struct dlk_sql_place places[2] = {{.shown = NULL}, {.shown = NULL}};
  bool ok = make_place(conf, tables, &places[0]);
  ok = make_place(conf, tables, &places[1]) && ok;
  *out = NULL;
  if (ok)
    *out = dlk_sql_create(host, conf, &dialect, places, true);
  else
    for (int i = 0; i < 2; i++)
      dlk_sql_place_free(&places[i]);
  return *out ? DLK_OK : fail(err, DLK_UNAVAILABLE, conf, "out of memory");
}

const struct dlk_store_type dlk_mysql_store = {
    .abi = DLK_STORE_ABI,
    .name = "mysql",
    .schema = dlk_mysql_schema,
    .op_size = sizeof(struct dlk_sql_try),
    .lease_size = sizeof(struct dlk_sql_hold),
    .portable = true,
    .listens = true,
    .stop_wait = DLK_STOP_WAIT,
    .prefix = dlk_sql_prefix,
    .create = create,
    .submit = dlk_sql_submit,
    .cancel = dlk_sql_cancel,
    .renew = dlk_sql_renew,
    .stop = dlk_sql_stop,
    .destroy = dlk_sql_destroy,
};
