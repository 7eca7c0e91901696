/* The file store: one host, a local directory, no server.
 *
 * A store lives while its pipe has a reader (liveness.c). Each key's file has a
 * table (table.c) under a short mutex, an open-file-description lock that dies
 * with its process. queue.c argues that no death and no lost message blocks
 * anyone.
 *
 * The owner of the engine's loop runs all of this; only descriptors.c and
 * temporary.c have state of the process. Of the folders format, dir and recipe
 * each calls only those before it.
 *
 * A hold lasts until its release or its process's death; with renew = false the
 * engine releases it at the ttl. */
#include "store/file/file.h"

#include <stdlib.h>
#include <string.h>

#include "store/file/recipe/steps.h"

#define PATH_LIMIT 4000
#define PREFIX_LIMIT 256

static void guard(struct dlk_file_op *f) {
  struct dlk_error err;
  dlk_error_set(&err, DLK_UNSUPPORTED,
                "the file store keeps no data, so it cannot guard a write; "
                "have the resource compare lease.fence, or use redis://");
  dlk_file_end(f, &err);
}

/* Others are unsupported. */
static void (*const steps[])(struct dlk_file_op *) = {
    [DLK_OP_ACQUIRE] = dlk_file_acquire,
    [DLK_OP_RELEASE] = dlk_file_release,
    [DLK_OP_EXTEND] = dlk_file_extend,
    [DLK_OP_PING] = dlk_file_ping,
    [DLK_OP_LOCKED] = dlk_file_locked,
    [DLK_OP_INSPECT] = dlk_file_inspect,
    [DLK_OP_LIST] = dlk_file_list,
    [DLK_OP_BREAK] = dlk_file_break,
    [DLK_OP_REVOKE] = dlk_file_revoke,
    [DLK_OP_GUARD] = guard,
    [DLK_OP_DOWNGRADE] = dlk_file_downgrade,
    [DLK_OP_PUBLISH] = dlk_file_publish,
    [DLK_OP_CHANGE] = dlk_file_change,
};

static void step(struct dlk_file_op *f) {
  if (f->phase == DLK_FILE_LEAVING)
    dlk_file_leave(f);
  else if (steps[f->op->kind] == NULL)
    dlk_file_end_code(f, DLK_UNSUPPORTED);
  else
    steps[f->op->kind](f);
}

static void submit(void *store, struct dlk_op *op) {
  struct dlk_file_op *f = op->data;
  struct dlk_error err;
  dlk_file_op_begin(store, op, step);
  size_t value_len = op->kind == DLK_OP_ACQUIRE   ? op->lease->value_len
                     : op->kind == DLK_OP_PUBLISH ? op->text_len
                                                  : 0;
  if (value_len <= DLK_FILE_VALUE) {
    step(f);
    return;
  }
  dlk_error_set(&err, DLK_INVALID,
                "the file store can publish values of at most %d bytes",
                DLK_FILE_VALUE);
  dlk_file_end(f, &err);
}

static void cancel(void *store, struct dlk_op *op) {
  struct dlk_file_op *f = op->data;
  struct dlk_error err = {.code = op->ending};
  char q[DLK_QUOTED_MAX];
  (void)store;
  if (f->phase == DLK_FILE_QUEUED) {
    f->phase = DLK_FILE_LEAVING;
    f->tries = 0;
    dlk_file_unwatch(f);
    dlk_file_leave(f);
    return;
  }
  if (dlk_file_must_go_on(f))
    return;
  /* Nothing of the op is in the table. If it saw no holder, only a mutex was
   * in its way. */
  if (err.code == DLK_TIMEOUT && op->kind != DLK_OP_CHANGE &&
      op->holder[0] == '\0')
    dlk_error_set(&err, op->wait ? DLK_TIMEOUT : DLK_UNAVAILABLE,
                  "the lock file of %s in %s is busy all the time; look for a "
                  "process of this user that is stopped (state T) and "
                  "continue or kill it",
                  dlk_quote(q, op->key, op->key_len), f->store->dir.path);
  dlk_file_end(f, &err);
}

static enum dlk_code check_conf(const struct dlk_conf *conf,
                                struct dlk_error *err) {
  if (conf->host_count > 0)
    return dlk_error_set(err, DLK_INVALID,
                         "%s names a host; the file store is local, write "
                         "file:///directory",
                         conf->shown);
  bool temporary = strcmp(conf->scheme, "memory") == 0;
  if (!temporary && (conf->path == NULL || conf->path[0] != '/'))
    return dlk_error_set(err, DLK_INVALID,
                         "%s has no absolute path; write file:///directory",
                         conf->shown);
  if (strlen(conf->path) > PATH_LIMIT)
    return dlk_error_set(err, DLK_INVALID,
                         "the path of a file store is "
                         "longer than %d bytes; use a shorter one",
                         PATH_LIMIT);
  if (conf->username != NULL || conf->password != NULL)
    return dlk_error_set(err, DLK_INVALID,
                         "the file store has no users and passwords; leave "
                         "them out");
  if (strlen(conf->prefix) > PREFIX_LIMIT)
    return dlk_error_set(err, DLK_INVALID, "the prefix is longer than %d bytes",
                         PREFIX_LIMIT);
  static const char *const none[] = {NULL};
  return dlk_option_check(&conf->options, none, conf->shown, err);
}

static const char *prefix(const char *given) {
  return given != NULL ? given : "";
}

static void destroy(void *store) {
  struct dlk_file_store *s = store;
  dlk_map_clear(&s->entries);
  dlk_file_dir_free(&s->dir);
  free(s);
}

static void disconnected(struct dlk_file_dir *d) {
  dlk_file_sweep_stop(dlk_file_store_of(d));
}

static const struct dlk_file_dir_user user = {
    .look = dlk_file_look,
    .holds = dlk_file_entry_holds,
    .claims = dlk_file_entry_claims,
    .disconnected = disconnected,
};

static enum dlk_code create(struct dlk_host *host, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  uint32_t seed;
  enum dlk_code code = check_conf(conf, err);
  if (code != DLK_OK)
    return code;
  struct dlk_file_store *s = calloc(1, sizeof *s);
  host->random(host, &seed, sizeof seed);
  if (s == NULL || !dlk_file_dir_init(&s->dir, host, conf, seed)) {
    free(s);
    return dlk_error_set(err, DLK_UNAVAILABLE, "out of memory");
  }
  s->dir.user = &user;
  dlk_map_init(&s->entries, seed);
  dlk_list_init(&s->ops);
  *out = s;
  return DLK_OK;
}

/* Ends the ops that a stopped process's mutex delays. Our entries die with the
 * pipe. */
static void stop(void *store) {
  struct dlk_file_store *s = store;
  while (!dlk_list_empty(&s->ops))
    dlk_file_end_code(DLK_CONTAINER(s->ops.next, struct dlk_file_op, link),
                      DLK_CLOSED);
  struct dlk_file_dir *d = &s->dir;
  if (d->fd >= 0)
    dlk_file_disconnect(d);
  dlk_file_peers_close(d);
  d->stopping = true;
  if (d->handles == 0)
    d->host->stopped(d->host);
}

const struct dlk_store_type dlk_file_store = {
    .abi = DLK_STORE_ABI,
    .name = "file",
    .op_size = sizeof(struct dlk_file_op),
    .lease_size = sizeof(struct dlk_file_entry),
    .portable = false,
    .prefix = prefix,
    .create = create,
    .submit = submit,
    .cancel = cancel,
    .renew = dlk_file_renew,
    .stop = stop,
    .destroy = destroy,
};
