/* The Consul store: checks open()'s options and puts the recipe (store/session)
 * on the driver. */
#include "store/session/consul/consul.h"

#include <stdlib.h>
#include <string.h>

#include "store/session/consul/link.h"
#include "store/session/query/submit.h"

/* "/a/b": as Consul's newest servers take keys. */
static bool is_folder(const char *p) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_./";
  size_t n = strlen(p);
  return p[0] == '/' && n > 1 && p[n - 1] != '/' && !strstr(p, "//") &&
         !strstr(p, "./") && p[n - 1] != '.' && p[strspn(p, plain)] == '\0';
}

static enum dlk_code check(const struct dlk_conf *conf, const char *path,
                           int64_t timeout, struct dlk_error *err) {
  static const char *const known[] = {"session_timeout", "tls", "tls_library",
                                      NULL};
  if (conf->host_count != 1)
    return dlk_conf_refuse(err, DLK_INVALID, conf, "names no agent");
  if (!is_folder(conf->prefix) || (*path && !is_folder(path)))
    return dlk_conf_refuse(
        err, DLK_INVALID, conf,
        "a path, and a prefix, is like /dlock: letters, digits, -_.");
  if (timeout < DLK_SEC || timeout > 60 * DLK_SEC)
    return dlk_conf_refuse(
        err, DLK_INVALID, conf,
        "session_timeout must be from 1 to 60 seconds (10 is the least "
        "that Consul takes, unless its session_ttl_min is less)");
  if (conf->username)
    return dlk_conf_refuse(err, DLK_INVALID, conf,
                           "Consul has no users: its token is the password "
                           "(consul://:token@host)");
  if (conf->password && strpbrk(conf->password, "\r\n"))
    return dlk_conf_refuse(err, DLK_INVALID, conf,
                           "the token has a line break in it");
  if (dlk_option_find(&conf->options, "tls", "key_password_file"))
    return dlk_conf_refuse(
        err, DLK_UNSUPPORTED, conf,
        "tls.key_password_file is not for Consul; use key_password");
  return dlk_option_check(&conf->options, known, conf->shown, err);
}

static enum dlk_code create(struct dlk_host *host, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  int64_t timeout = dlk_option_ns(&conf->options, "session_timeout", 0);
  const char *path =
      conf->path && strcmp(conf->path, "/") != 0 ? conf->path : "";
  enum dlk_code code = check(conf, path, timeout, err);
  if (code != DLK_OK)
    return code;
  struct dlk_consul_client *client = calloc(1, sizeof *client);
  *out = NULL;
  if (client) {
    client->conf = *conf;
    client->base = dlk_ss_base(conf);
    dlk_list_init(&client->links);
    if (client->base && dlk_http_library())
      *out = dlk_ss_create(host, conf, &dlk_consul_driver, client, client->base,
                           timeout);
    else
      dlk_consul_driver.free_client(client);
  }
  return *out ? DLK_OK
              : dlk_conf_refuse(err, DLK_UNAVAILABLE, conf, "out of memory");
}

const struct dlk_store_type dlk_consul_store = {
    .name = "consul",
    .create = create,
    DLK_SS_STORE,
};
