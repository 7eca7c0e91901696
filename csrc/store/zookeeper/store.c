/* The table of the ZooKeeper store: checks what open() was told, hands each
 * operation to the file that knows it, and words the errors.
 *
 * Paths. The chroot of the URL is not the library's: every path is chroot +
 * prefix + "/" + escaped key, and what of it is missing is made at first use,
 * the chroot as plain nodes, the rest as containers, which the servers remove
 * when they have been empty for a minute. With credentials every node is made
 * for their owner alone, else for everybody. */
#include "internal.h"
#include "zookeeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STOP_WAIT (200 * DLK_MS)

/* ---- errors ---- */

enum dlk_code dlk_zk_code(enum dlk_zk_rc rc) {
  return rc == DLK_ZK_NOAUTH ? DLK_DENIED : DLK_UNAVAILABLE;
}

static void word(struct dlk_zk_store *st, const struct dlk_op *op,
                 enum dlk_code code, struct dlk_error *err) {
  char key[DLK_QUOTED_MAX];
  dlk_quote(key, op->key ? op->key : "", op->key_len);
  if (code == DLK_UNAVAILABLE)
    dlk_error_set(err, code,
                  "%s: ZooKeeper at %s did not answer in time%s%s; is it up, "
                  "and has it a quorum?",
                  key, st->conf.shown, st->problem[0] ? ": " : "", st->problem);
  else if (code == DLK_DENIED)
    dlk_error_set(err, code,
                  "%s: ZooKeeper at %s refuses access to %s; check username "
                  "and password, and the ACL of that node",
                  key, st->conf.shown, st->base);
  else if (code == DLK_INVALID)
    dlk_error_other_limit(err, op->key, op->key_len);
  else if (code == DLK_UNSUPPORTED)
    dlk_error_set(err, code,
                  "%s: not with the ZooKeeper store, or not with this "
                  "ensemble (a fence must stay below 10^14)",
                  key);
  else
    err->code = code;
}

void dlk_zk_done(struct dlk_zk_store *st, struct dlk_op *op,
                 enum dlk_code code) {
  struct dlk_error err = {.code = code};
  if (code != DLK_OK)
    word(st, op, code, &err);
  st->host->done(st->host, op, code == DLK_OK ? NULL : &err);
}

void dlk_zk_done_text(struct dlk_zk_store *st, struct dlk_op *op,
                      enum dlk_code code, const char *text) {
  char key[DLK_QUOTED_MAX];
  struct dlk_error err;
  dlk_quote(key, op->key ? op->key : "", op->key_len);
  dlk_error_set(&err, code, "%s: %s", key, text);
  st->host->done(st->host, op, &err);
}

void dlk_zk_lock_path(struct dlk_zk_store *st, struct dlk_buf *out,
                      const char *key, size_t len) {
  dlk_buf_addf(out, "%s/", st->base);
  dlk_zk_escape(out, key, len);
}

/* ---- create ---- */

static enum dlk_code fail(struct dlk_error *err, enum dlk_code code,
                          const struct dlk_conf *conf, const char *why) {
  return dlk_error_set(err, code, "'%s': %s", conf->shown, why);
}

/* A path of ZooKeeper: absolute, no empty, "." or ".." part, not at the end
 * of a slash. "" is none. */
bool dlk_zk_path_ok(const char *p) {
  if (!*p)
    return true;
  while (*p == '/') {
    size_t n = strcspn(++p, "/");
    if (n == 0 || (n <= 2 && memcmp(p, "..", n) == 0))
      return false;
    for (size_t i = 0; i < n; i++)
      if ((unsigned char)p[i] < 0x20 || p[i] == 0x7f)
        return false;
    p += n;
  }
  return *p == '\0';
}

static char *join_hosts(const struct dlk_conf *conf) {
  struct dlk_buf b = {0};
  for (size_t i = 0; i < conf->host_count; i++) {
    const struct dlk_addr *a = &conf->hosts[i];
    bool v6 = strchr(a->host, ':') != NULL;
    dlk_buf_addf(&b, "%s%s%s%s:%u", i ? "," : "", v6 ? "[" : "", a->host,
                 v6 ? "]" : "", a->port ? a->port : 2181u);
  }
  dlk_buf_add(&b, "", 1);
  if (b.failed) {
    dlk_buf_free(&b);
    return NULL;
  }
  return b.data;
}

static enum dlk_code check(const struct dlk_conf *conf, const char *path,
                           const char *prefix, struct dlk_error *err) {
  if (strcmp(conf->scheme, "zookeepers") == 0)
    return fail(err, DLK_UNSUPPORTED, conf,
                "this ZooKeeper client library has no TLS; use zookeeper://");
  if (conf->host_count == 0)
    return fail(err, DLK_INVALID, conf, "names no server");
  if (!dlk_zk_path_ok(path))
    return fail(err, DLK_INVALID, conf,
                "the path is no ZooKeeper path, such as /app");
  if (!dlk_zk_path_ok(prefix) || !*prefix)
    return fail(err, DLK_INVALID, conf,
                "the prefix is no ZooKeeper path, such as /dlock");
  if ((conf->username == NULL) != (conf->password == NULL))
    return fail(err, DLK_INVALID, conf,
                "needs both a username and a password, or neither");
  if (conf->username && strchr(conf->username, ':'))
    return fail(err, DLK_INVALID, conf, "a username has no ':' in it");
  if (conf->session_timeout < 100 * DLK_MS ||
      conf->session_timeout > 86400 * DLK_SEC)
    return fail(err, DLK_INVALID, conf,
                "session_timeout must be from 0.1 to 86400 seconds");
  return DLK_OK;
}

static void wipe(char *secret) {
  if (secret)
    explicit_bzero(secret, strlen(secret));
  free(secret);
}

static void destroy(void *store) {
  struct dlk_zk_store *st = store;
  free(st->hosts);
  wipe(st->auth);
  free(st->base);
  dlk_map_clear(&st->by_guid);
  dlk_buf_free(&st->scratch);
  free(st);
}

static bool fill(struct dlk_zk_store *st, const char *path,
                 const char *prefix) {
  const struct dlk_conf *conf = &st->conf;
  st->hosts = join_hosts(conf);
  st->chroot = strlen(path);
  size_t size = st->chroot + strlen(prefix) + 1;
  st->base = malloc(size);
  if (st->base)
    snprintf(st->base, size, "%s%s", path, prefix);
  if (conf->username) {
    size = strlen(conf->username) + strlen(conf->password) + 2;
    st->auth = malloc(size);
    if (st->auth)
      snprintf(st->auth, size, "%s:%s", conf->username, conf->password);
  }
  return st->hosts && st->base && (st->auth || !conf->username);
}

static void stop_late(struct dlk_timer *timer, int64_t now) {
  (void)now;
  dlk_zk_abandon_all(DLK_CONTAINER(timer, struct dlk_zk_store, stop_timer));
}

static enum dlk_code create(struct dlk_host *host, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  const char *path =
      conf->path && strcmp(conf->path, "/") != 0 ? conf->path : "";
  const char *prefix = conf->prefix && *conf->prefix ? conf->prefix : "/dlock";
  enum dlk_code code = check(conf, path, prefix, err);
  if (code != DLK_OK)
    return code;
  struct dlk_zk_store *st = calloc(1, sizeof *st);
  if (!st)
    return fail(err, DLK_UNAVAILABLE, conf, "out of memory");
  st->host = host;
  st->conf = *conf;
  st->driver = &dlk_zk_session_driver;
  st->stop_timer.fire = stop_late;
  dlk_list_init(&st->sessions);
  dlk_list_init(&st->closing);
  if (!fill(st, path, prefix)) {
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
  default:
    dlk_zk_ask(st, op);
    break;
  }
}

static void cancel(void *store, struct dlk_op *op) {
  struct dlk_zk_op_data *data = op->data;
  if (data->ask)
    dlk_zk_ask_cancel(store, op, data->ask);
  else if (data->node)
    dlk_zk_cancel_node(store, op, data->node);
}

/* ---- stop ---- */

void dlk_zk_stop_progress(struct dlk_zk_store *st) {
  if (!st->stopping || st->links > 0)
    return;
  st->host->timer_clear(st->host, &st->stop_timer);
  st->host->stopped(st->host);
}

/* A close takes one round trip if the server is there; longer than STOP_WAIT
 * it is left to its thread, which touches nothing of ours. */
static void stop(void *store) {
  struct dlk_zk_store *st = store;
  st->stopping = true;
  while (!dlk_list_empty(&st->sessions))
    dlk_zk_session_end(
        DLK_CONTAINER(st->sessions.next, struct dlk_zk_session, link),
        DLK_CLOSED);
  if (st->links > 0)
    st->host->timer_set(st->host, &st->stop_timer, dlk_zk_now(st) + STOP_WAIT);
  dlk_zk_stop_progress(st);
}

const struct dlk_store_type dlk_zookeeper_store = {
    .abi = DLK_STORE_ABI,
    .name = "zookeeper",
    .op_size = sizeof(struct dlk_zk_op_data),
    .lease_size = sizeof(struct dlk_zk_lease_data),
    .portable = false,
    .create = create,
    .submit = submit,
    .cancel = cancel,
    .renew = dlk_zk_renew,
    .stop = stop,
    .destroy = destroy,
};
