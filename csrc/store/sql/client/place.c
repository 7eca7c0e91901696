#include "store/sql/client/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *dlk_sql_option(const struct dlk_conf *conf, const char *name,
                           const char *key) {
  const struct dlk_option *o = dlk_option_find(&conf->options, name, key);
  return o ? o->text : NULL;
}

bool dlk_sql_place_set(char **to, const char *text) {
  *to = text ? strdup(text) : NULL;
  return !text || *to;
}

bool dlk_sql_place_take(char **to, struct dlk_buf *from) {
  dlk_buf_add(from, "", 1);
  *to = from->failed ? NULL : from->data;
  if (!*to)
    dlk_buf_free(from);
  return *to != NULL;
}

bool dlk_sql_place_fill(struct dlk_sql_place *p, const struct dlk_conf *conf,
                        const char *secure, const char *schema,
                        const char *script) {
  const struct dlk_option *verify =
      dlk_option_find(&conf->options, "tls", "verify");
  *p = (struct dlk_sql_place){.script = script,
                              .tls = strcmp(conf->scheme, secure) == 0,
                              .verify = !verify || verify->number != 0,
                              .secret = conf->secret,
                              .connect_timeout = conf->connect_timeout,
                              .io_timeout = conf->io_timeout};
  const struct {
    char **to;
    const char *text;
  } all[] = {{&p->shown, conf->shown},
             {&p->schema, schema},
             {&p->database, dlk_option_text(&conf->options, "database")},
             {&p->username, conf->username},
             {&p->password, conf->password},
             {&p->cafile, dlk_sql_option(conf, "tls", "cafile")},
             {&p->cert, dlk_sql_option(conf, "tls", "cert")},
             {&p->key, dlk_sql_option(conf, "tls", "key")},
             {&p->key_password, dlk_sql_option(conf, "tls", "key_password")},
             {&p->min_version, dlk_sql_option(conf, "tls", "min_version")}};
  bool ok = true;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    ok = dlk_sql_place_set(all[i].to, all[i].text) && ok;
  return ok;
}

#define TEXT(name) offsetof(struct dlk_sql_place, name)
static const size_t texts[] = {
    TEXT(shown),      TEXT(hosts),    TEXT(ports),  TEXT(database),
    TEXT(username),   TEXT(password), TEXT(schema), TEXT(listen),
    TEXT(cafile),     TEXT(cert),     TEXT(key),    TEXT(key_password),
    TEXT(min_version)};

static char **text(struct dlk_sql_place *p, size_t i) {
  return (char **)(void *)((char *)p + texts[i]);
}

bool dlk_sql_place_copy(struct dlk_sql_place *to,
                        const struct dlk_sql_place *from) {
  bool ok = true;
  *to = *from;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    ok = dlk_sql_place_set(text(to, i), *text(to, i)) && ok;
  if (!ok)
    dlk_sql_place_free(to);
  return ok;
}

void dlk_sql_place_free(struct dlk_sql_place *p) {
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char *one = *text(p, i);
    if (one)
      explicit_bzero(one, strlen(one));
    free(one);
  }
}

bool dlk_sql_is_plain(const char *name, size_t most) {
  size_t n = strlen(name);
  return n > 0 && n <= most && !(name[0] >= '0' && name[0] <= '9') &&
         strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

enum dlk_code dlk_sql_check_tls(const struct dlk_conf *conf, const char *where,
                                struct dlk_error *err) {
  static const char *const lacks[] = {"capath", "key_password_file",
                                      "server_name", "ciphers", "ciphersuites"};
  for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++)
    if (dlk_option_find(&conf->options, "tls", lacks[i]))
      return dlk_error_set(err, DLK_UNSUPPORTED, "%s: tls.%s is not %s",
                           conf->shown, lacks[i], where);
  return DLK_OK;
}

size_t dlk_sql_place_names(const struct dlk_sql_place *place, const char *mark,
                           const char *prefix, struct dlk_buf *out) {
  size_t count = 0;
  const char *at = place->script;
  while ((at = strstr(at, mark)) != NULL) {
    at += strlen(mark);
    int len = (int)strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_");
    dlk_buf_addf(out, "%s'%s%.*s'", count++ > 0 ? "," : "", prefix, len, at);
  }
  return count;
}
