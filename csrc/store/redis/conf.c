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

static enum dlk_code database(const struct dlk_conf *conf, unsigned *db,
                              struct dlk_error *err) {
  const char *path = conf->path ? conf->path : "";
  if (dlk_redis_conf_by_sentinel(conf)) /* a name stands before it */
    path = strchr(path + 1, '/') ? strchr(path + 1, '/') : "";
  *db = 0;
  if (conf->host_count == 0 || path[0] == '\0' || strcmp(path, "/") == 0)
    return DLK_OK;
  char *end;
  unsigned long n = strtoul(path + 1, &end, 10);
  if (path[1] < '0' || path[1] > '9' || *end || n > 1000000)
    return dlk_error_set(err, DLK_INVALID,
                         "%s: the database must be a number, as in "
                         "redis://host:6379/0",
                         conf->shown);
  *db = (unsigned)n;
  return DLK_OK;
}

/* What waits behind it on the connection has its io_timeout. */
static enum dlk_code durability(const struct dlk_conf *conf,
                                struct dlk_redis_settings *out,
                                struct dlk_error *err) {
  out->replicas =
      (unsigned)dlk_option_number(&conf->options, "wait_replicas", 0);
  out->wait_timeout = dlk_option_ns(&conf->options, "wait_timeout", 0);
  if (out->replicas > 0 && out->wait_timeout > conf->io_timeout / 2)
    return dlk_error_set(err, DLK_INVALID,
                         "%s: wait_timeout must be at most half of io_timeout",
                         conf->shown);
  return DLK_OK;
}

static enum dlk_code check_options(const struct dlk_conf *conf,
                                   struct dlk_error *err) {
  static const char *const known[] = {
      "fence_memory", "wait_replicas", "wait_timeout", "tls", "tls_library",
      "insecure",
      /* of Sentinels only: */
      "sentinel_username", "sentinel_password", "sentinel_password_file",
      "address_map", NULL};
  static const char *const alone[] = {"fence_memory",
                                      "wait_replicas",
                                      "wait_timeout",
                                      "tls",
                                      "tls_library",
                                      "insecure",
                                      NULL};
  return dlk_option_check(&conf->options,
                          dlk_redis_conf_by_sentinel(conf) ? known : alone,
                          conf->shown, err);
}

enum dlk_code dlk_redis_conf_read(const struct dlk_conf *conf,
                                  struct dlk_redis_settings *out,
                                  struct dlk_error *err) {
  if (strcmp(conf->scheme, "redis") != 0 &&
      strcmp(conf->scheme, "rediss") != 0 &&
      !dlk_redis_conf_by_sentinel(conf) &&
      strcmp(conf->scheme, "redis+unix") != 0)
    return dlk_error_set(err, DLK_UNSUPPORTED,
                         "%s: not built in; use redis://host:port/db",
                         conf->shown);
  if (conf->host_count > 1 && !dlk_redis_conf_by_sentinel(conf))
    return dlk_error_set(err, DLK_INVALID, "%s: redis:// takes one host",
                         conf->shown);
  if (dlk_redis_conf_by_sentinel(conf) &&
      (!conf->path || strlen(conf->path) < 2))
    return dlk_error_set(err, DLK_INVALID,
                         "%s: behind the Sentinels the name of the primary is "
                         "missing, as in redis+sentinel://h1,h2,h3/mymaster",
                         conf->shown);
  if (conf->host_count == 0 && (!conf->path || conf->path[0] != '/'))
    return dlk_error_set(err, DLK_INVALID,
                         "%s: give a host, or a path as redis+unix:///path",
                         conf->shown);
  if (strncmp(conf->prefix, DLK_REDIS_RESERVED, strlen(DLK_REDIS_RESERVED)) ==
      0)
    return dlk_error_set(err, DLK_INVALID,
                         "%s: names that begin with " DLK_REDIS_RESERVED
                         " are dlock's own; use another prefix",
                         conf->shown);
  enum dlk_code code = check_options(conf, err);
  if (code == DLK_OK)
    code = durability(conf, out, err);
  return code == DLK_OK ? database(conf, &out->db, err) : code;
}
