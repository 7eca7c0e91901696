/* The file store: operations from submit to done.
 *
 * One host, a local directory, no server. The kernel is the session: a store
 * lives while its pipe has a reader (peer.c), and what a dead store held or
 * waited for is free. Each key has a file with a table (table.c) under a
 * short mutex, an open-file-description lock that dies with its process; the
 * table is valid after every write. queue.c has the admission rule and the
 * argument that no death and no lost message blocks anyone.
 *
 * Nothing here blocks: the mutex is held for some microseconds and only ever
 * tried for; when a process was stopped while it had it, everybody else tries
 * again by timer until the engine cancels. What then must still be undone (a
 * place in the queue, a release) goes on in the background, because nobody
 * else would do it while this process lives.
 *
 * ttl is not the file store's affair: a hold lasts until it is released or
 * its process dies. For renew = false the engine releases at the ttl. */
#include "store/file/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/file/internal.h"

#define SLOW 4 /* tries after which the pause between them is longest */
#define PATH_LIMIT 4000
#define PREFIX_LIMIT 256
#define CREATED_MANY 256

static void fire(struct dlk_timer *timer, int64_t now) {
  (void)now;
  dlk_file_step(DLK_CONTAINER(timer, struct dlk_file_op, timer));
}

/* 1 to 16 ms, jittered so that two do not meet again and again. */
void dlk_file_retry(struct dlk_file_op *f) {
  struct dlk_host *h = f->store->host;
  int64_t pause = DLK_MS << (f->tries < SLOW ? f->tries : SLOW);
  uint16_t r;
  h->random(h, &r, sizeof r);
  if (f->tries < SLOW)
    f->tries++;
  h->timer_set(h, &f->timer, h->now(h) + pause / 2 + pause * r / 65536);
}

void dlk_file_forget(struct dlk_file_store *s, struct dlk_file_entry *e) {
  if (e->node.queued)
    dlk_map_remove(&s->entries, &e->node);
  e->op = NULL;
}

void dlk_file_end(struct dlk_file_op *f, const struct dlk_error *err) {
  struct dlk_host *h = f->store->host;
  struct dlk_op *op = f->op;
  h->timer_clear(h, &f->timer);
  dlk_list_remove(&f->link);
  dlk_file_peer_unwatch(f);
  if (op->kind == DLK_OP_CHANGE)
    dlk_file_forget(f->store, &f->watcher);
  if (op->kind == DLK_OP_ACQUIRE && err != NULL)
    dlk_file_forget(f->store, op->lease->data);
  h->done(h, op, err);
}

void dlk_file_end_code(struct dlk_file_op *f, enum dlk_code code) {
  struct dlk_error err = {.code = code};
  dlk_file_end(f, &err);
}

/* What must not be left undone: while this process lives, nobody else would
 * take it out of the table. */
static bool must_go_on(const struct dlk_file_op *f) {
  if (f->op->ending == DLK_CLOSED)
    return false;
  return f->op->kind == DLK_OP_RELEASE || f->phase != DLK_FILE_START;
}

static enum dlk_code explain(const struct dlk_file_op *f, int error,
                             struct dlk_error *err) {
  char q[DLK_QUOTED_MAX], name[DLK_FILE_NAME], why[DLK_REASON_MAX];
  const char *path = f->store->path;
  const char *key = dlk_quote(q, f->op->key, f->op->key_len);
  switch (error) {
  case EEXIST:
    return dlk_error_set(err, DLK_INVALID,
                         "the lock file of %s in %s is another key's; use a "
                         "file system that tells upper from lower case",
                         key, path);
  case EPROTO:
    name[0] = '\0';
    dlk_file_key_name(f->store, f->op->key, f->op->key_len, name);
    return dlk_error_set(err, DLK_UNAVAILABLE,
                         "%s is no lock file of ours (plain, mode 0600, one "
                         "name) and is left alone, so %s cannot be locked in "
                         "%s; move it, or give dlock a directory of its own",
                         name, key, path);
  case EBADMSG:
    return dlk_error_set(err, DLK_UNAVAILABLE,
                         "%s/~store is no file of ours and is left alone; move "
                         "it, or give dlock a directory of its own",
                         path);
  case ENAMETOOLONG:
    return dlk_error_set(err, DLK_INVALID,
                         "the key %s is too long with its "
                         "prefix; use a shorter prefix",
                         key);
  case EACCES:
  case EPERM:
  case ELOOP:
    return dlk_error_set(err, DLK_DENIED,
                         "cannot use the lock file of %s in %s: %s; its files "
                         "must be our own, mode 0600",
                         key, path, strerror(error));
  case ENOSYS:
  case EOPNOTSUPP:
    return dlk_error_set(err, DLK_UNSUPPORTED,
                         "the file system of %s has no FIFOs or no locks; use "
                         "a directory on ext4, xfs, btrfs or tmpfs",
                         path);
  default:
    return dlk_error_set(err, DLK_UNAVAILABLE, "cannot lock %s in %s: %s", key,
                         path, dlk_reason(why, error));
  }
}

void dlk_file_fail(struct dlk_file_op *f, int error) {
  struct dlk_error err;
  if (error == EAGAIN || must_go_on(f)) {
    dlk_file_retry(f);
    return;
  }
  explain(f, error, &err);
  dlk_file_end(f, &err);
}

/* The pipe is made anew, under a new instance, when its name was deleted:
 * others take us for dead since then. */
static int connect_wake(struct dlk_file_store *s, bool check) {
  if (s->wake >= 0 && !(check && dlk_file_wake_lost(s)))
    return 0;
  int error = s->wake >= 0 && dlk_file_dir_lost(s) ? ENOENT : 0;
  if (error == 0)
    error = dlk_file_meta_open(s);
  if (error == ENOENT) {
    dlk_file_disconnect(s);
    return EAGAIN;
  }
  if (error == 0)
    error = dlk_file_lock(s->meta);
  if (error != 0)
    return error;
  dlk_file_wake_close(s);
  error = dlk_file_wake_open(s);
  int64_t from;
  bool sweep = error == 0 && dlk_file_sweep_due(s, &from);
  dlk_file_unlock(s->meta);
  if (sweep)
    dlk_file_sweep_start(s, from);
  return error == EPERM ? EOPNOTSUPP : error;
}

int dlk_file_ready(struct dlk_file_op *f) {
  struct dlk_file_store *s = f->store;
  struct dlk_error err;
  if (s->stopping) {
    dlk_file_end_code(f, DLK_CLOSED);
    return ECANCELED;
  }
  if (s->dir < 0 && dlk_file_dir_open(s, &err) != DLK_OK) {
    dlk_file_end(f, &err);
    return ECANCELED;
  }
  int error = connect_wake(s, f->op->kind != DLK_OP_RELEASE);
  if (error == 0)
    return 0;
  dlk_file_fail(f, error);
  return ECANCELED;
}

/* A store that makes many files also sees to it that those of the dead go. */
static void sweep_sometimes(struct dlk_file_store *s) {
  if (s->created < CREATED_MANY)
    return;
  s->created = 0;
  if (dlk_file_meta_open(s) != 0 || dlk_file_try_lock(s->meta) != 0)
    return;
  int64_t from;
  bool due = dlk_file_sweep_due(s, &from);
  dlk_file_unlock(s->meta);
  if (due)
    dlk_file_sweep_start(s, from);
}

int dlk_file_visit(struct dlk_file_op *f, bool create,
                   struct dlk_file_key **out) {
  struct dlk_file_store *s = f->store;
  if (dlk_file_ready(f) != 0)
    return ECANCELED;
  sweep_sometimes(s);
  int error = dlk_file_key_enter(s, f->op->key, f->op->key_len, create, out);
  if (error == 0 || (error == ENOENT && !create))
    return error;
  if (!create && f->op->lease != NULL && dlk_file_key_gone(error))
    return ENOENT;
  dlk_file_fail(f, error);
  return ECANCELED;
}

void dlk_file_disconnect(struct dlk_file_store *s) {
  dlk_file_sweep_stop(s);
  while (!dlk_list_empty(&s->recent))
    dlk_file_key_retire(
        s, DLK_CONTAINER(s->recent.next, struct dlk_file_key, link));
  dlk_file_wake_close(s);
  dlk_file_fd_close(s->meta);
  dlk_file_fd_close(s->dir);
  s->meta = s->dir = -1;
}

static void ping(struct dlk_file_op *f) {
  struct dlk_file_store *s = f->store;
  if (dlk_file_ready(f) != 0)
    return;
  int64_t sent = s->host->now(s->host);
  int error = dlk_file_meta_open(s);
  if (error == 0)
    error = dlk_file_lock(s->meta);
  if (error != 0) {
    dlk_file_fail(f, error);
    return;
  }
  dlk_file_unlock(s->meta);
  double took = (double)(s->host->now(s->host) - sent) / (double)DLK_SEC;
  f->op->result = dlk_value_number(took);
  dlk_file_end(f, NULL);
}

static void locked(struct dlk_file_op *f) {
  struct dlk_file_store *s = f->store;
  struct dlk_file_key *k;
  int error = dlk_file_visit(f, false, &k);
  if (error == ECANCELED)
    return;
  bool held = false;
  if (error == 0) {
    dlk_file_settle(s);
    held = s->table.head.count[DLK_FILE_HELD] > 0;
    error = dlk_file_key_leave(s, k);
    if (error != 0) {
      dlk_file_fail(f, error);
      return;
    }
  }
  f->op->result = dlk_value_bool(held);
  dlk_file_end(f, NULL);
}

static void refuse(struct dlk_file_op *f, const char *text) {
  struct dlk_error err;
  dlk_error_set(&err, DLK_UNSUPPORTED, "%s", text);
  dlk_file_end(f, &err);
}

void dlk_file_step(struct dlk_file_op *f) {
  if (f->phase == DLK_FILE_LEAVING) {
    dlk_file_leave(f);
    return;
  }
  switch (f->op->kind) {
  case DLK_OP_ACQUIRE:
    dlk_file_acquire(f);
    return;
  case DLK_OP_RELEASE:
    dlk_file_release(f);
    return;
  case DLK_OP_EXTEND:
    dlk_file_extend(f);
    return;
  case DLK_OP_PING:
    ping(f);
    return;
  case DLK_OP_LOCKED:
    locked(f);
    return;
  case DLK_OP_INSPECT:
    dlk_file_inspect(f);
    return;
  case DLK_OP_LIST:
    dlk_file_list(f);
    return;
  case DLK_OP_BREAK:
    dlk_file_break(f);
    return;
  case DLK_OP_REVOKE:
    dlk_file_revoke(f);
    return;
  case DLK_OP_DOWNGRADE:
    dlk_file_downgrade(f);
    return;
  case DLK_OP_CHANGE:
    dlk_file_change(f);
    return;
  case DLK_OP_GUARD:
    refuse(f, "the file store keeps no data, so it cannot guard a write; "
              "have the resource compare lease.fence, or use redis://");
    return;
  case DLK_OP_DETACH:
  case DLK_OP_ATTACH:
    break;
  }
  refuse(f, "the file store cannot carry a lease to another process; use "
            "redis:// for that");
}

/* What could never be granted would block all behind it. */
static bool possible(struct dlk_file_op *f) {
  struct dlk_error err;
  const struct dlk_lease *lease = f->op->lease;
  if (lease->value_len > DLK_FILE_VALUE)
    dlk_error_set(&err, DLK_INVALID,
                  "the file store can publish values of at most %d bytes",
                  DLK_FILE_VALUE);
  else if (lease->want.cap > 0 && lease->want.units > lease->want.cap)
    dlk_error_set(&err, DLK_INVALID, "%u permits asked of a semaphore of %u",
                  (unsigned)lease->want.units, (unsigned)lease->want.cap);
  else
    return true;
  dlk_file_end(f, &err);
  return false;
}

static void submit(void *store, struct dlk_op *op) {
  struct dlk_file_op *f = op->data;
  f->store = store;
  f->op = op;
  f->timer.fire = fire;
  dlk_list_init(&f->watches);
  dlk_list_init(&f->link);
  dlk_list_append(&f->store->ops, &f->link);
  if (op->kind != DLK_OP_ACQUIRE || possible(f))
    dlk_file_step(f);
}

/* Nothing of it in the table: it can end at once. An op that did not even
 * try to wait has met nobody but a mutex. */
static void cancel_start(struct dlk_file_op *f) {
  struct dlk_error err = {.code = f->op->ending};
  char q[DLK_QUOTED_MAX];
  bool waits = f->op->wait || f->op->kind == DLK_OP_CHANGE;
  if (f->op->ending == DLK_TIMEOUT && !waits)
    dlk_error_set(&err, DLK_UNAVAILABLE,
                  "the lock file of %s in %s is busy all the time; look for a "
                  "process of this user that is stopped (state T) and "
                  "continue or kill it",
                  dlk_quote(q, f->op->key, f->op->key_len), f->store->path);
  dlk_file_end(f, &err);
}

static void cancel(void *store, struct dlk_op *op) {
  struct dlk_file_op *f = op->data;
  (void)store;
  if (f->phase == DLK_FILE_QUEUED) {
    f->phase = DLK_FILE_LEAVING;
    f->tries = 0;
    dlk_file_peer_unwatch(f);
    dlk_file_leave(f);
  } else if (!must_go_on(f)) {
    cancel_start(f);
  }
}

static enum dlk_code check_conf(const struct dlk_conf *conf,
                                struct dlk_error *err) {
  if (conf->host_count > 0)
    return dlk_error_set(err, DLK_INVALID,
                         "%s names a host; the file store is local, write "
                         "file:///directory",
                         conf->shown);
  if (conf->path == NULL || conf->path[0] != '/')
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
  if (conf->prefix != NULL && strlen(conf->prefix) > PREFIX_LIMIT)
    return dlk_error_set(err, DLK_INVALID, "the prefix is longer than %d bytes",
                         PREFIX_LIMIT);
  return DLK_OK;
}

static void destroy(void *store) {
  struct dlk_file_store *s = store;
  if (s == NULL)
    return;
  dlk_map_clear(&s->keys);
  dlk_map_clear(&s->entries);
  dlk_map_clear(&s->peers);
  free(s->path);
  free(s->wake_path);
  free(s->prefix);
  free(s);
}

/* "/dir/" would follow a link at its end, so slashes there go. */
static char *trimmed(const char *path) {
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/')
    n--;
  return strndup(path, n);
}

static enum dlk_code create(struct dlk_host *host, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  uint32_t seed;
  enum dlk_code code = check_conf(conf, err);
  if (code != DLK_OK)
    return code;
  struct dlk_file_store *s = calloc(1, sizeof *s);
  if (s != NULL) {
    s->path = trimmed(conf->path);
    s->prefix = strdup(conf->prefix == NULL ? "" : conf->prefix);
  }
  if (s == NULL || s->path == NULL || s->prefix == NULL) {
    destroy(s);
    return dlk_error_set(err, DLK_UNAVAILABLE, "out of memory");
  }
  s->host = host;
  s->prefix_len = strlen(s->prefix);
  s->dir = s->meta = s->wake = -1;
  dlk_list_init(&s->recent);
  dlk_list_init(&s->idle);
  dlk_list_init(&s->ops);
  host->random(host, &seed, sizeof seed);
  dlk_map_init(&s->keys, seed);
  dlk_map_init(&s->entries, seed);
  dlk_map_init(&s->peers, seed);
  *out = s;
  return DLK_OK;
}

/* Operations that are left when the engine's patience ends (somebody has a
 * mutex and is stopped) end here. Idle files go while we still count as
 * alive; whatever is left of us in a table is dead with the pipe. */
static void stop(void *store) {
  struct dlk_file_store *s = store;
  while (!dlk_list_empty(&s->ops))
    dlk_file_end_code(DLK_CONTAINER(s->ops.next, struct dlk_file_op, link),
                      DLK_CLOSED);
  if (s->dir >= 0)
    dlk_file_disconnect(s);
  dlk_file_peers_close(s);
  s->stopping = true;
  if (s->handles == 0)
    s->host->stopped(s->host);
}

const struct dlk_store_type dlk_file_store = {
    .abi = DLK_STORE_ABI,
    .name = "file",
    .op_size = sizeof(struct dlk_file_op),
    .lease_size = sizeof(struct dlk_file_entry),
    .portable = false,
    .create = create,
    .submit = submit,
    .cancel = cancel,
    .renew = dlk_file_renew,
    .stop = stop,
    .destroy = destroy,
};
