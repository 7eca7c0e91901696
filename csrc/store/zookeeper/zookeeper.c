/* The ZooKeeper store: checks open()'s options and puts the recipe
 * (store/session) on the driver. */
#include "store/zookeeper/zookeeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "store/session/query/submit.h"
#include "store/zookeeper/driver.h"
#include "store/zookeeper/path.h"

/* The library splits each at its last colon, so an IPv6 address has no
 * brackets. */
static char *join_hosts(const struct dlk_conf *conf) {
  struct dlk_buf b = {0};
  for (size_t i = 0; i < conf->host_count; i++) {
    const struct dlk_addr *a = &conf->hosts[i];
    dlk_buf_addf(&b, "%s%s:%u", i ? "," : "", a->host,
                 a->port ? a->port : 2181u);
  }
  dlk_buf_add(&b, "", 1);
  if (!b.failed)
    return b.data;
  dlk_buf_free(&b);
  return NULL;
}

static int64_t session_timeout(const struct dlk_conf *conf) {
  return dlk_option_ns(&conf->options, "session_timeout", 0);
}

static enum dlk_code check_user(const struct dlk_conf *conf,
                                struct dlk_error *err) {
  const char *acl = dlk_option_text(&conf->options, "acl");
  if ((conf->username == NULL) != (conf->password == NULL))
    return dlk_conf_refuse(err, DLK_INVALID, conf,
                           "needs both a username and a password, or neither");
  if (conf->username && strchr(conf->username, ':'))
    return dlk_conf_refuse(err, DLK_INVALID, conf,
                           "a username has no ':' in it");
  if (acl && strcmp(acl, "creator") == 0 && !conf->username)
    return dlk_conf_refuse(
        err, DLK_INVALID, conf,
        "acl = \"creator\" needs a username and a password, so that "
        "there is a creator; or leave it out");
  if (dlk_option_number(&conf->options, "sasl", 0) != 0)
    return dlk_conf_refuse(
        err, DLK_UNSUPPORTED, conf,
        "there is no SASL: the ZooKeeper client library is built "
        "without; use username and password (digest)");
  return DLK_OK;
}

static enum dlk_code check(const struct dlk_conf *conf, const char *path,
                           struct dlk_error *err) {
  if (strcmp(conf->scheme, "zookeepers") == 0)
    return dlk_conf_refuse(
        err, DLK_UNSUPPORTED, conf,
        "this ZooKeeper client library has no TLS; use zookeeper://");
  if (conf->host_count == 0)
    return dlk_conf_refuse(err, DLK_INVALID, conf, "names no server");
  if (!dlk_zk_path_ok(path))
    return dlk_conf_refuse(err, DLK_INVALID, conf,
                           "the path is no ZooKeeper path, such as /app");
  if (!*conf->prefix || !dlk_zk_path_ok(conf->prefix))
    return dlk_conf_refuse(err, DLK_INVALID, conf,
                           "the prefix is no ZooKeeper path, such as /dlock");
  static const char *const known[] = {"session_timeout", "acl", "sasl", NULL};
  int64_t timeout = session_timeout(conf);
  if (timeout < 100 * DLK_MS || timeout > 86400 * DLK_SEC)
    return dlk_conf_refuse(err, DLK_INVALID, conf,
                           "session_timeout must be from 0.1 to 86400 seconds");
  enum dlk_code code = check_user(conf, err);
  return code == DLK_OK
             ? dlk_option_check(&conf->options, known, conf->shown, err)
             : code;
}

static bool fill(struct dlk_zk_client *client, const struct dlk_conf *conf,
                 const char *path) {
  const char *acl = dlk_option_text(&conf->options, "acl");
  client->hosts = join_hosts(conf);
  client->chroot = strdup(path);
  client->closed = conf->username && !(acl && strcmp(acl, "open") == 0);
  if (conf->username) {
    size_t size = strlen(conf->username) + strlen(conf->password) + 2;
    client->auth = malloc(size);
    if (client->auth)
      snprintf(client->auth, size, "%s:%s", conf->username, conf->password);
  }
  return client->hosts && client->chroot && (client->auth || !conf->username);
}

static enum dlk_code create(struct dlk_host *host, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  const char *path =
      conf->path && strcmp(conf->path, "/") != 0 ? conf->path : "";
  enum dlk_code code = check(conf, path, err);
  if (code != DLK_OK)
    return code;
  struct dlk_zk_client *client = calloc(1, sizeof *client);
  char *base = dlk_ss_base(conf);
  *out = NULL;
  if (client && base && fill(client, conf, path))
    *out = dlk_ss_create(host, conf, &dlk_zk_driver, client, base,
                         session_timeout(conf));
  else if (client)
    dlk_zk_driver.free_client(client);
  free(base);
  return *out ? DLK_OK
              : dlk_conf_refuse(err, DLK_UNAVAILABLE, conf, "out of memory");
}

const struct dlk_store_type dlk_zookeeper_store = {
    .name = "zookeeper",
    .portable = false,
    .create = create,
    DLK_SS_STORE,
};
