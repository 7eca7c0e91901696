/* The PostgreSQL store: checks open()'s options, and puts the recipe on libpq.
 */
#include "store/sql/postgres/postgres.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "postgres_schema.h"
#include "store/sql/postgres/connection.h"
#include "store/sql/postgres/run.h"
#include "store/sql/recipe/recipe.h"

#define PORT 5432

static const struct dlk_sql_dialect dialect = {.name = "postgres",
                                               .open = dlk_pg_open,
                                               .close = dlk_pg_close,
                                               .run = dlk_pg_run,
                                               .end = dlk_pg_end,
                                               .listen = dlk_pg_listen,
                                               .hear = dlk_pg_hear,
                                               .fd = dlk_pg_fd};

static enum dlk_code fail(struct dlk_error *err, enum dlk_code code,
                          const struct dlk_conf *conf, const char *why) {
  return dlk_error_set(err, code, "%s: %s", conf->shown, why);
}

/* Stands in the functions' texts, so it is a plain name. */
static bool is_plain(const char *name) {
  return name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0' &&
         strlen(name) < 64 && !(name[0] >= '0' && name[0] <= '9');
}

static enum dlk_code check(const struct dlk_conf *conf, const char *schema,
                           struct dlk_error *err) {
  static const char *const known[] = {
      "schema", "listen", "database", "tls", "tls_library", "insecure", NULL};
  static const char *const lacks[] = {"capath", "key_password_file",
                                      "server_name", "ciphers", "ciphersuites"};
  /* libpq takes these from the environment, whatever it is given. */
  static const char *const leads[] = {"PGHOSTADDR", "PGSERVICE"};
  char text[160];
  for (size_t i = 0; i < sizeof leads / sizeof *leads; i++)
    if (getenv(leads[i])) {
      snprintf(text, sizeof text,
               "the environment's %s would lead elsewhere: unset it", leads[i]);
      return fail(err, DLK_INVALID, conf, text);
    }
  if (!dlk_option_text(&conf->options, "database"))
    return fail(err, DLK_INVALID, conf,
                "names no database, as in postgres://host/database");
  if (!is_plain(schema) || !schema[0])
    return fail(err, DLK_INVALID, conf,
                "a schema's name has small letters, digits and _");
  for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++)
    if (dlk_option_find(&conf->options, "tls", lacks[i])) {
      snprintf(text, sizeof text,
               "tls.%s is not for PostgreSQL, whose library has no such option",
               lacks[i]);
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

static void add_host(struct dlk_buf *hosts, struct dlk_buf *ports,
                     const char *host, unsigned port) {
  const char *comma = hosts->len > 0 ? "," : "";
  dlk_buf_addf(hosts, "%s%s", comma, host);
  dlk_buf_addf(ports, "%s%u", comma, port ? port : PORT);
}

/* What both connections have in common. */
static bool base(const struct dlk_conf *conf, struct dlk_sql_place *p) {
  const struct dlk_option *verify =
      dlk_option_find(&conf->options, "tls", "verify");
  const char *schema = dlk_option_text(&conf->options, "schema");
  struct dlk_buf quoted = {0};
  dlk_buf_addf(&quoted, "\"%s\"", schema ? schema : "dlock");
  p->script = dlk_postgres_schema;
  p->verify = !verify || verify->number != 0;
  p->connect_timeout = conf->connect_timeout;
  p->io_timeout = conf->io_timeout;
  bool ok = take(&p->schema, &quoted);
  ok = set(&p->shown, conf->shown) && ok;
  ok = set(&p->cafile, option(conf, "tls", "cafile")) && ok;
  ok = set(&p->cert, option(conf, "tls", "cert")) && ok;
  ok = set(&p->key, option(conf, "tls", "key")) && ok;
  ok = set(&p->key_password, option(conf, "tls", "key_password")) && ok;
  return set(&p->min_version, option(conf, "tls", "min_version")) && ok;
}

static bool place_of_url(const struct dlk_conf *conf, struct dlk_sql_place *p) {
  struct dlk_buf hosts = {0}, ports = {0};
  bool ok = base(conf, p);
  for (size_t i = 0; i < conf->host_count; i++)
    add_host(&hosts, &ports, conf->hosts[i].host, conf->hosts[i].port);
  p->tls = strcmp(conf->scheme, "postgress") == 0;
  p->secret = conf->secret;
  ok = take(&p->hosts, &hosts) && ok;
  ok = take(&p->ports, &ports) && ok;
  ok = set(&p->database, dlk_option_text(&conf->options, "database")) && ok;
  ok = set(&p->username, conf->username) && ok;
  return set(&p->password, conf->password) && ok;
}

/* The option `listen`: "1 host", "1 port" and so on. */
static bool place_of_listen(const struct dlk_conf *conf,
                            struct dlk_sql_place *p) {
  struct dlk_buf hosts = {0}, ports = {0};
  bool ok = base(conf, p);
  for (int i = 1;; i++) {
    char name[24];
    snprintf(name, sizeof name, "%d host", i);
    const char *host = option(conf, "listen", name);
    if (!host)
      break;
    snprintf(name, sizeof name, "%d port", i);
    const struct dlk_option *port =
        dlk_option_find(&conf->options, "listen", name);
    add_host(&hosts, &ports, host, port ? (unsigned)port->number : 0);
  }
  const struct dlk_option *tls =
      dlk_option_find(&conf->options, "listen", "tls");
  const char *username = option(conf, "listen", "username");
  p->tls = tls && tls->number != 0;
  p->secret = username ? NULL : conf->secret;
  ok = take(&p->hosts, &hosts) && ok;
  ok = take(&p->ports, &ports) && ok;
  ok = set(&p->database, option(conf, "listen", "database")) && ok;
  ok = set(&p->username, username ? username : conf->username) && ok;
  return set(&p->password,
             username ? option(conf, "listen", "password") : conf->password) &&
         ok;
}

static enum dlk_code create(struct dlk_host *host, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  const char *schema = dlk_option_text(&conf->options, "schema");
  enum dlk_code code = check(conf, schema ? schema : "dlock", err);
  if (code != DLK_OK)
    return code;
  struct dlk_sql_place places[2] = {{.shown = NULL}, {.shown = NULL}};
  bool second = option(conf, "listen", "database") != NULL;
  const struct dlk_option *listen =
      dlk_option_find(&conf->options, "listen", NULL);
  bool ok = place_of_url(conf, &places[0]);
  ok = (second ? place_of_listen : place_of_url)(conf, &places[1]) && ok;
  *out = NULL;
  if (ok)
    *out = dlk_sql_create(host, conf, &dialect, places, listen && !second);
  else
    for (int i = 0; i < 2; i++)
      dlk_sql_place_free(&places[i]);
  return *out ? DLK_OK : fail(err, DLK_UNAVAILABLE, conf, "out of memory");
}

const struct dlk_store_type dlk_postgres_store = {
    .abi = DLK_STORE_ABI,
    .name = "postgres",
    .schema = dlk_postgres_schema,
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
