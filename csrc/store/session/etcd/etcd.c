/* The etcd store: checks open()'s options and puts the recipe (store/session)
 * on the driver. */
#include "store/session/etcd/etcd.h"

#include <stdlib.h>
#include <string.h>

#include "store/session/etcd/link.h"
#include "store/session/query/submit.h"

#define PORT 2379

/* "/a/b" */
static bool is_folder(const char *p) {
  size_t n = strlen(p);
  return p[0] == '/' && n > 1 && p[n - 1] != '/' && !strstr(p, "//");
}

static enum dlk_code check(const struct dlk_conf *conf, int64_t timeout,
                           struct dlk_error *err) {
  static const char *const known[] = {"session_timeout", "tls", "tls_library",
                                      NULL};
  if (conf->host_count == 0)
    return dlk_conf_refuse(err, DLK_INVALID, conf, "names no server");
  if (!is_folder(conf->prefix))
    return dlk_conf_refuse(err, DLK_INVALID, conf,
                           "a prefix is a folder like /dlock");
  if (timeout < DLK_SEC || timeout > 86400 * DLK_SEC)
    return dlk_conf_refuse(err, DLK_INVALID, conf,
                           "session_timeout must be from 1 to 86400 seconds");
  if (conf->password && !conf->username)
    return dlk_conf_refuse(err, DLK_INVALID, conf,
                           "a password needs a username");
  return dlk_option_check(&conf->options, known, conf->shown, err);
}

static bool fill(struct dlk_etcd_client *client) {
  const struct dlk_conf *conf = &client->conf;
  client->base = dlk_ss_base(conf);
  client->members = calloc(conf->host_count, sizeof *client->members);
  for (size_t i = 0; client->members && i < conf->host_count; i++)
    client->members[i] = (struct dlk_net_address){
        .host = conf->hosts[i].host,
        .port = conf->hosts[i].port ? conf->hosts[i].port : PORT,
        .tls = client->tls};
  return client->base && client->members;
}

static enum dlk_code create(struct dlk_host *host, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  int64_t timeout = dlk_option_ns(&conf->options, "session_timeout", 0);
  enum dlk_code code = check(conf, timeout, err);
  struct dlk_net_tls *tls = NULL;
  if (code == DLK_OK && strcmp(conf->scheme, "etcds") == 0)
    code = dlk_net_tls_new(conf, "h2", &tls, err);
  if (code != DLK_OK)
    return code;
  struct dlk_etcd_client *client = calloc(1, sizeof *client);
  *out = NULL;
  if (client) {
    client->conf = *conf;
    if (conf->host_count > 1) /* another one gets its turn in a call's time */
      client->conf.io_timeout /= 2;
    client->tls = tls;
    dlk_list_init(&client->links);
    if (fill(client))
      *out = dlk_ss_create(host, conf, &dlk_etcd_driver, client, client->base,
                           timeout);
    else
      dlk_etcd_driver.free_client(client);
  } else {
    dlk_net_tls_free(tls);
  }
  return *out ? DLK_OK
              : dlk_conf_refuse(err, DLK_UNAVAILABLE, conf, "out of memory");
}

const struct dlk_store_type dlk_etcd_store = {
    .name = "etcd",
    .portable = true,
    .create = create,
    DLK_SS_STORE,
};
