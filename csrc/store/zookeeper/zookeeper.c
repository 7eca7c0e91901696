/* The ZooKeeper store as the engine sees it: checks what open() was told and
 * hands each operation to the file that knows it. Everything is run
 * by the loop's owner. The folders, each calling only those before it, and what
 * is best read first in each:
 *
 *   format/   names of nodes, what a contender's node says
 *   client/   link.h: a session as the store needs it; the rest puts it on the
 *             client library
 *   session/  sessions.c: opening, replacing, ending; confirm.c: how long a
 *             hold counts
 *   recipe/   queue.c: the admission rule; acquire.c: the recipe
 *   query/    query.c: operations that only read, or act once */
#include "store/zookeeper/zookeeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/password.h"
#include "store/session/query/query.h"
#include "store/session/recipe/acquire.h"
#include "store/session/recipe/hold.h"
#include "store/session/recipe/leave.h"
#include "store/session/recipe/standin.h"

/* ---- create ---- */

static enum dlk_code fail(struct dlk_error *err, enum dlk_code code,
                          const struct dlk_conf *conf, const char *why) {
  return dlk_error_set(err, code, "'%s': %s", conf->shown, why);
}

/* As the C library takes them: it splits each at its last colon, and looks up
 * what is before that, so an IPv6 address has no brackets. */
static char *join_hosts(const struct dlk_conf *conf) {
  struct dlk_buf b = {0};
  for (size_t i = 0; i < conf->host_count; i++) {
    const struct dlk_addr *a = &conf->hosts[i];
    dlk_buf_addf(&b, "%s%s:%u", i ? "," : "", a->host,
                 a->port ? a->port : 2181u);
  }
  dlk_buf_add(&b, "", 1);
  if (b.failed) {
    dlk_buf_free(&b);
    return NULL;
  }
  return b.data;
}

static int64_t session_timeout(const struct dlk_conf *conf) {
  return dlk_option_ns(&conf->options, "session_timeout", 0);
}

/* Whether what is made is for its maker alone: so it is once there is one. */
static bool closed(const struct dlk_conf *conf) {
  const char *acl = dlk_option_text(&conf->options, "acl");
  return conf->username && !(acl && strcmp(acl, "open") == 0);
}

static enum dlk_code check_user(const struct dlk_conf *conf,
                                struct dlk_error *err) {
  const char *acl = dlk_option_text(&conf->options, "acl");
  if ((conf->username == NULL) != (conf->password == NULL))
    return fail(err, DLK_INVALID, conf,
                "needs both a username and a password, or neither");
  if (conf->username && strchr(conf->username, ':'))
    return fail(err, DLK_INVALID, conf, "a username has no ':' in it");
  if (acl && strcmp(acl, "creator") == 0 && !conf->username)
    return fail(err, DLK_INVALID, conf,
                "acl = \"creator\" needs a username and a password, so that "
                "there is a creator; or leave it out");
  if (dlk_option_number(&conf->options, "sasl", 0) != 0)
    return fail(err, DLK_UNSUPPORTED, conf,
                "there is no SASL: the ZooKeeper client library is built "
                "without; use username and password (digest)");
  return DLK_OK;
}

static const char *prefix(const char *given) {
  return given && *given ? given : "/dlock";
}

static enum dlk_code check(const struct dlk_conf *conf, const char *path,
                           struct dlk_error *err) {
  if (strcmp(conf->scheme, "zookeepers") == 0)
    return fail(err, DLK_UNSUPPORTED, conf,
                "this ZooKeeper client library has no TLS; use zookeeper://");
  if (conf->host_count == 0)
    return fail(err, DLK_INVALID, conf, "names no server");
  if (!dlk_zk_path_ok(path))
    return fail(err, DLK_INVALID, conf,
                "the path is no ZooKeeper path, such as /app");
  if (!dlk_zk_path_ok(conf->prefix))
    return fail(err, DLK_INVALID, conf,
                "the prefix is no ZooKeeper path, such as /dlock");
  static const char *const known[] = {"session_timeout", "acl", "sasl", NULL};
  int64_t timeout = session_timeout(conf);
  if (timeout < 100 * DLK_MS || timeout > 86400 * DLK_SEC)
    return fail(err, DLK_INVALID, conf,
                "session_timeout must be from 0.1 to 86400 seconds");
  enum dlk_code code = check_user(conf, err);
  return code == DLK_OK
             ? dlk_option_check(&conf->options, known, conf->shown, err)
             : code;
}

static void destroy(void *store) {
  struct dlk_zk_store *st = store;
  free(st->sessions.hosts);
  dlk_password_free(st->sessions.auth);
  free(st->base);
  dlk_map_clear(&st->by_guid);
  dlk_buf_free(&st->scratch);
  free(st);
}

static bool fill(struct dlk_zk_store *st, const char *path) {
  const struct dlk_conf *conf = &st->conf;
  st->sessions.hosts = join_hosts(conf);
  st->chroot = strlen(path);
  size_t size = st->chroot + strlen(conf->prefix) + 1;
  st->base = malloc(size);
  if (st->base)
    snprintf(st->base, size, "%s%s", path, conf->prefix);
  if (conf->username) {
    size = strlen(conf->username) + strlen(conf->password) + 2;
    st->sessions.auth = malloc(size);
    if (st->sessions.auth)
      snprintf(st->sessions.auth, size, "%s:%s", conf->username,
               conf->password);
  }
  return st->sessions.hosts && st->base &&
         (st->sessions.auth || !conf->username);
}

static enum dlk_code create(struct dlk_host *host, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  const char *path =
      conf->path && strcmp(conf->path, "/") != 0 ? conf->path : "";
  enum dlk_code code = check(conf, path, err);
  if (code != DLK_OK)
    return code;
  struct dlk_zk_store *st = calloc(1, sizeof *st);
  if (!st)
    return fail(err, DLK_UNAVAILABLE, conf, "out of memory");
  st->host = host;
  st->conf = *conf;
  st->sessions.host = host;
  st->sessions.driver = &dlk_zk_session_driver;
  st->sessions.hooks = &dlk_zk_recipe;
  st->sessions.conf = &st->conf;
  st->sessions.timeout = session_timeout(conf);
  st->sessions.closed = closed(conf);
  dlk_list_init(&st->sessions.all);
  dlk_list_init(&st->sessions.closing);
  dlk_list_init(&st->rests);
  if (!fill(st, path)) {
    destroy(st);
    return fail(err, DLK_UNAVAILABLE, conf, "out of memory");
  }
  *out = st;
  return DLK_OK;
}

/* ---- operations ---- */

/* Not at create: a store opened before a fork is used after it. */
static void name_client(struct dlk_zk_store *st) {
  unsigned char random[DLK_ZK_CLIENT / 2];
  uint32_t seed;
  if (st->client[0])
    return;
  st->host->random(st->host, random, sizeof random);
  st->host->random(st->host, &seed, sizeof seed);
  dlk_zk_hex(st->client, random, sizeof random);
  dlk_map_init(&st->by_guid, seed);
}

static void submit(void *store, struct dlk_op *op) {
  struct dlk_zk_store *st = store;
  name_client(st);
  switch (op->kind) {
  case DLK_OP_ACQUIRE:
    dlk_zk_acquire(st, op);
    break;
  case DLK_OP_RELEASE:
    dlk_zk_release(st, op);
    break;
  case DLK_OP_EXTEND:
    dlk_zk_extend(st, op);
    break;
  case DLK_OP_PING:
    dlk_zk_query_run(st, op, dlk_zk_ping_start);
    break;
  case DLK_OP_LOCKED:
    dlk_zk_query_run(st, op, dlk_zk_locked_start);
    break;
  case DLK_OP_INSPECT:
  case DLK_OP_BREAK:
  case DLK_OP_REVOKE:
    dlk_zk_query_run(st, op, dlk_zk_admin_start);
    break;
  case DLK_OP_LIST:
    if (dlk_zk_list_cursor_ok(op))
      dlk_zk_query_run(st, op, dlk_zk_list_start);
    else
      dlk_zk_done(st, op, DLK_INVALID);
    break;
  case DLK_OP_GUARD:
  case DLK_OP_DOWNGRADE:
    dlk_zk_query_run(st, op, dlk_zk_guard_start);
    break;
  case DLK_OP_CHANGE:
    dlk_zk_query_run(st, op, dlk_zk_change_start);
    break;
  case DLK_OP_DETACH:
  case DLK_OP_ATTACH:
  case DLK_OP_PROLONG:
  case DLK_OP_LISTEN:
    dlk_zk_done(st, op, DLK_UNSUPPORTED);
    break;
  }
}

static void cancel(void *store, struct dlk_op *op) {
  struct dlk_zk_op_data *data = op->data;
  if (data->query)
    dlk_zk_query_cancel(data->query);
  else if (data->node)
    dlk_zk_contender_cancel(store, op, data->node);
}

static void stop(void *store) {
  struct dlk_zk_store *st = store;
  dlk_zk_rests_end(st);
  dlk_zk_sessions_stop(&st->sessions);
}

const struct dlk_store_type dlk_zookeeper_store = {
    .abi = DLK_STORE_ABI,
    .name = "zookeeper",
    .op_size = sizeof(struct dlk_zk_op_data),
    .lease_size = sizeof(struct dlk_zk_lease_data),
    .portable = false,
    .stop_wait = DLK_STOP_WAIT,
    .prefix = prefix,
    .create = create,
    .submit = submit,
    .cancel = cancel,
    .renew = dlk_zk_renew,
    .stop = stop,
    .destroy = destroy,
};
