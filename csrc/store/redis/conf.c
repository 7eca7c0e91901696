/* What a URL of Redis and its options may say. What is wrong is said at open,
 * before anything is connected. */
#include "store/redis/conf.h"

#include <stdlib.h>
#include <string.h>

#include "store/redis/wire/names.h"

bool dlk_redis_conf_by_sentinel(const struct dlk_conf *conf) {
  return strcmp(conf->scheme, "redis+sentinel") == 0 ||
         strcmp(conf->scheme, "rediss+sentinel") == 0;
}

bool dlk_redis_conf_by_cluster(const struct dlk_conf *conf) {
  return strcmp(conf->scheme, "redis+cluster") == 0 ||
         strcmp(conf->scheme, "rediss+cluster") == 0;
}

bool dlk_redis_conf_by_tls(const struct dlk_conf *conf) {
  return strncmp(conf->scheme, "rediss", 6) == 0 ||
         strcmp(conf->scheme, "redlocks") == 0;
}

/* The store is one node of a Redlock. */
static bool is_node(const struct dlk_conf *conf) {
  return strncmp(conf->scheme, "redlock", 7) == 0;
}

/* The URL has at most five digits there. A path of a socket has no room for
 * it, so an option says it. */
static enum dlk_code database(const struct dlk_conf *conf, unsigned *db,
                              struct dlk_error *err) {
  bool is_socket = conf->host_count == 0;
  const char *path = conf->path ? conf->path : "";
  if (dlk_redis_conf_by_sentinel(conf)) { /* a name stands before it */
    path = strchr(path + 1, '/');
    path = path ? path : "";
  }
  *db = path[0] && !is_socket ? (unsigned)strtoul(path + 1, NULL, 10) : 0;
  if (is_socket)
    *db = (unsigned)dlk_option_number(&conf->options, "db", 0);
  else if (dlk_option_find(&conf->options, "db", NULL))
    return dlk_conf_refuse(err, DLK_INVALID, conf,
                           "the option 'db' is for redis+unix://; here the "
                           "database stands in the URL, as in "
                           "redis://host:6379/0");
  return DLK_OK;
}

/* What waits behind it on the connection has its io_timeout. */
static enum dlk_code durability(const struct dlk_conf *conf,
                                struct dlk_redis_settings *out,
                                struct dlk_error *err) {
  out->all = dlk_option_text(&conf->options, "wait_replicas") != NULL;
  out->replicas = (unsigned)dlk_option_number(&conf->options, "wait_replicas",
                                              out->all ? 1 : 0);
  out->wait_timeout = dlk_option_ns(&conf->options, "wait_timeout", 0);
  if (out->replicas > 0 && out->wait_timeout > conf->io_timeout / 2)
    return dlk_conf_refuse(err, DLK_INVALID, conf,
                           "wait_timeout must be at most half of io_timeout");
  return DLK_OK;
}

static enum dlk_code check_options(const struct dlk_conf *conf,
                                   struct dlk_error *err) {
  static const char *const known[] = {
      "fence_memory", "wait_replicas", "wait_timeout", "tls", "tls_library",
      "db", "address_map",
      /* of Sentinels only: */
      "sentinel_username", "sentinel_password", "sentinel_password_file", NULL};
  static const char *const alone[] = {"fence_memory",
                                      "wait_replicas",
                                      "wait_timeout",
                                      "tls",
                                      "tls_library",
                                      "db",
                                      NULL};
  static const char *const cluster[] = {"fence_memory",
                                        "wait_replicas",
                                        "wait_timeout",
                                        "tls",
                                        "tls_library",
                                        "address_map",
                                        NULL};
  static const char *const node[] = {
      "fence_memory", "tls",   "tls_library",  "db", "node_timeout",
      "max_ttl",      "nodes", "wait_timeout", NULL};
  return dlk_option_check(&conf->options,
                          dlk_redis_conf_by_sentinel(conf)  ? known
                          : dlk_redis_conf_by_cluster(conf) ? cluster
                          : is_node(conf)                   ? node
                                                            : alone,
                          conf->shown, err);
}

enum dlk_code dlk_redis_conf_read(const struct dlk_conf *conf,
                                  struct dlk_redis_settings *out,
                                  struct dlk_error *err) {
  if (strncmp(conf->prefix, DLK_REDIS_RESERVED, strlen(DLK_REDIS_RESERVED)) ==
      0)
    return dlk_conf_refuse(err, DLK_INVALID, conf,
                           "names that begin with " DLK_REDIS_RESERVED
                           " are dlock's own; use another prefix");
  out->max_ttl = is_node(conf) ? dlk_option_ns(&conf->options, "max_ttl",
                                               DLK_REDIS_MAX_TTL)
                               : 0;
  enum dlk_code code = check_options(conf, err);
  if (code == DLK_OK)
    code = durability(conf, out, err);
  return code == DLK_OK ? database(conf, &out->db, err) : code;
}
