/* The PostgreSQL store: checks open()'s options, and puts the recipe on libpq.
 */
#include "store/sql/postgres/postgres.h"

#include <stdio.h>
#include <stdlib.h>

#include "postgres_schema.h"
#include "store/sql/client/place.h"
#include "store/sql/postgres/connection.h"
#include "store/sql/postgres/run.h"
#include "store/sql/recipe/recipe.h"

#define PORT 5432

static const struct dlk_sql_dialect dialect = {.name = "postgres",
                                               .bytes = "decode($1, 'hex')",
                                               .open = dlk_pg_open,
                                               .close = dlk_pg_close,
                                               .run = dlk_pg_run,
                                               .end = dlk_pg_end,
                                               .listen = dlk_pg_listen,
                                               .hear = dlk_pg_hear,
                                               .fd = dlk_pg_fd};

static enum dlk_code check(const struct dlk_conf *conf, const char *schema,
                           struct dlk_error *err) {
  static const char *const known[] = {"schema", "listen",      "database",
                                      "tls",    "tls_library", NULL};
  /* libpq takes these from the environment, whatever it is given. */
  static const char *const leads[] = {"PGHOSTADDR", "PGSERVICE"};
  char text[160];
  for (size_t i = 0; i < sizeof leads / sizeof *leads; i++)
    if (getenv(leads[i])) {
      snprintf(text, sizeof text,
               "the environment's %s would lead elsewhere: unset it", leads[i]);
      return dlk_conf_refuse(err, DLK_INVALID, conf, text);
    }
  if (!dlk_option_text(&conf->options, "database"))
    return dlk_conf_refuse(err, DLK_INVALID, conf,
                           "names no database, as in postgres://host/database");
  if (!dlk_sql_is_plain(schema, 63))
    return dlk_conf_refuse(err, DLK_INVALID, conf,
                           "a schema's name has small letters, digits and _");
  enum dlk_code code = dlk_sql_check_tls(
      conf, "for PostgreSQL, whose library has no such option", err);
  return code != DLK_OK
             ? code
             : dlk_option_check(&conf->options, known, conf->shown, err);
}

static void add_host(struct dlk_buf *hosts, struct dlk_buf *ports,
                     const char *host, unsigned port) {
  const char *comma = hosts->len > 0 ? "," : "";
  dlk_buf_addf(hosts, "%s%s", comma, host);
  dlk_buf_addf(ports, "%s%u", comma, port ? port : PORT);
}

/* The hosts and ports that were added. */
static bool put_hosts(struct dlk_sql_place *p, struct dlk_buf *hosts,
                      struct dlk_buf *ports) {
  bool ok = dlk_sql_place_take(&p->hosts, hosts);
  return dlk_sql_place_take(&p->ports, ports) && ok;
}

static bool place_of_url(const struct dlk_conf *conf, const char *schema,
                         struct dlk_sql_place *p) {
  struct dlk_buf hosts = {0}, ports = {0};
  bool ok =
      dlk_sql_place_fill(p, conf, "postgress", schema, dlk_postgres_schema);
  for (size_t i = 0; i < conf->host_count; i++)
    add_host(&hosts, &ports, conf->hosts[i].host, conf->hosts[i].port);
  return put_hosts(p, &hosts, &ports) && ok;
}

static bool replace(char **to, const char *text) {
  free(*to);
  return dlk_sql_place_set(to, text);
}

/* The option `listen`: "1 host", "1 port" and so on. Without a user it has the
 * url's. */
static bool place_of_listen(const struct dlk_conf *conf, const char *schema,
                            struct dlk_sql_place *p) {
  struct dlk_buf hosts = {0}, ports = {0};
  bool ok =
      dlk_sql_place_fill(p, conf, "postgress", schema, dlk_postgres_schema);
  for (int i = 1;; i++) {
    char name[24];
    snprintf(name, sizeof name, "%d host", i);
    const char *host = dlk_sql_option(conf, "listen", name);
    if (!host)
      break;
    snprintf(name, sizeof name, "%d port", i);
    const struct dlk_option *port =
        dlk_option_find(&conf->options, "listen", name);
    add_host(&hosts, &ports, host, port ? (unsigned)port->number : 0);
  }
  const struct dlk_option *tls =
      dlk_option_find(&conf->options, "listen", "tls");
  const char *username = dlk_sql_option(conf, "listen", "username");
  p->tls = tls && tls->number != 0;
  ok = replace(&p->database, dlk_sql_option(conf, "listen", "database")) && ok;
  if (username) {
    p->secret = NULL;
    ok = replace(&p->username, username) && ok;
    ok =
        replace(&p->password, dlk_sql_option(conf, "listen", "password")) && ok;
  }
  return put_hosts(p, &hosts, &ports) && ok;
}

static enum dlk_code create(struct dlk_host *host, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  const char *given = dlk_option_text(&conf->options, "schema");
  const char *schema = given ? given : "dlock";
  char quoted[80];
  struct dlk_sql_place places[2];
  enum dlk_code code = check(conf, schema, err);
  if (code != DLK_OK)
    return code;
  bool second = dlk_sql_option(conf, "listen", "database") != NULL;
  bool deaf = dlk_option_find(&conf->options, "listen", NULL) && !second;
  snprintf(quoted, sizeof quoted, "\"%s\"", schema);
  bool ok = place_of_url(conf, quoted, &places[0]);
  ok =
      (second ? place_of_listen : place_of_url)(conf, quoted, &places[1]) && ok;
  return dlk_sql_create(host, conf, &dialect, ok, places, deaf, out, err);
}

const struct dlk_store_type dlk_postgres_store =
    DLK_SQL_STORE("postgres", dlk_postgres_schema, create);
