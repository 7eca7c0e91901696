/* An operation's life: begun, stepped when there is news, ended.
 *
 * A key's mutex is held for microseconds and only tried for. While a stopped
 * process has it, others try again by timer until the engine cancels. A place
 * in the queue or a release is undone in the background even then: nobody else
 * does it while we live. */
#include "store/file/recipe/op.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store/file/dir/meta.h"
#include "store/file/recipe/queue.h"

#define SLOW 4 /* tries until the longest pause */
#define CREATED_MANY 256

/* ---- begin, step ---- */

static void fire(struct dlk_timer *timer, int64_t now) {
  struct dlk_file_op *f = DLK_CONTAINER(timer, struct dlk_file_op, timer);
  (void)now;
  f->step(f);
}

static void store_died(struct dlk_file_watcher *w) {
  struct dlk_file_op *f = DLK_CONTAINER(w, struct dlk_file_op, watcher);
  f->step(f);
}

void dlk_file_op_begin(struct dlk_file_store *s, struct dlk_op *op,
                       void (*step)(struct dlk_file_op *f)) {
  struct dlk_file_op *f = op->data;
  f->store = s;
  f->op = op;
  f->step = step;
  f->timer.fire = fire;
  f->watcher.died = store_died;
  dlk_list_init(&f->watcher.watches);
  dlk_list_append(&s->ops, &f->link);
}

void dlk_file_look(struct dlk_file_dir *d, uint64_t token) {
  struct dlk_file_store *s = dlk_file_store_of(d);
  size_t count;
  if (d->stopping)
    return;
  if (token == DLK_FILE_ALL) {
    uint64_t *tokens = dlk_file_entry_tokens(s, &count);
    for (size_t i = 0; tokens != NULL && i < count; i++)
      dlk_file_look(d, tokens[i]);
    free(tokens);
    return;
  }
  struct dlk_file_entry *e = dlk_file_entry_find(s, token);
  struct dlk_file_op *f = e == NULL || e->op == NULL ? NULL : e->op->data;
  if (f != NULL)
    f->step(f);
  else if (e != NULL)
    dlk_file_entry_look(s, e);
}

/* 1 to 16 ms, with jitter against repeated collisions. */
void dlk_file_retry(struct dlk_file_op *f) {
  struct dlk_host *h = f->store->dir.host;
  int64_t pause = DLK_MS << (f->tries < SLOW ? f->tries : SLOW);
  uint16_t r;
  h->random(h, &r, sizeof r);
  if (f->tries < SLOW)
    f->tries++;
  h->timer_set(h, &f->timer, h->now(h) + pause / 2 + pause * r / 65536);
}

void dlk_file_keep_owner(struct dlk_op *op, const struct dlk_file_slot *slot) {
  size_t len = strnlen(slot->owner, sizeof slot->owner);
  snprintf(op->holder, sizeof op->holder, "%.*s", (int)len, slot->owner);
}

struct dlk_file_entry *dlk_file_entry_of(struct dlk_file_op *f) {
  return f->op->lease != NULL ? f->op->lease->data : &f->entry;
}

void dlk_file_unwatch(struct dlk_file_op *f) {
  dlk_file_peer_unwatch(&f->store->dir, &f->watcher);
}

/* ---- end ---- */

void dlk_file_end(struct dlk_file_op *f, const struct dlk_error *err) {
  struct dlk_host *h = f->store->dir.host;
  struct dlk_op *op = f->op;
  h->timer_clear(h, &f->timer);
  dlk_list_remove(&f->link);
  dlk_file_unwatch(f);
  if (op->kind == DLK_OP_CHANGE)
    dlk_file_forget(f->store, &f->entry);
  bool given_up =
      op->kind == DLK_OP_ACQUIRE ? err != NULL : op->kind == DLK_OP_RELEASE;
  if (given_up && op->lease != NULL)
    dlk_file_forget(f->store, op->lease->data);
  h->done(h, op, err);
}

void dlk_file_end_code(struct dlk_file_op *f, enum dlk_code code) {
  struct dlk_error err = {.code = code};
  dlk_file_end(f, code == DLK_OK ? NULL : &err);
}

void dlk_file_end_held(struct dlk_file_op *f, bool held) {
  if (!held)
    dlk_file_forget(f->store, f->op->lease->data);
  dlk_file_end_code(f, held ? DLK_OK : DLK_LOST);
}

bool dlk_file_must_go_on(const struct dlk_file_op *f) {
  if (f->op->ending == DLK_CLOSED)
    return false;
  return f->op->kind == DLK_OP_RELEASE || f->phase != DLK_FILE_START;
}

/* Whether the directory's mode keeps us out. */
static bool shut(const struct dlk_file_dir *d, struct dlk_error *err) {
  struct stat st;
  if (d->fd < 0 || fstat(d->fd, &st) != 0 ||
      (st.st_mode & (S_IWUSR | S_IXUSR)) == (S_IWUSR | S_IXUSR))
    return false;
  dlk_error_set(err, DLK_DENIED,
                "no permission to %s files in %s (mode %04o); run chmod 0700 "
                "on it or use another directory",
                (st.st_mode & S_IXUSR) != 0 ? "make" : "use", d->path,
                (unsigned)(st.st_mode & 07777));
  return true;
}

static enum dlk_code explain(const struct dlk_file_op *f, int error,
                             struct dlk_error *err) {
  char q[DLK_QUOTED_MAX], name[DLK_FILE_NAME], why[DLK_REASON_MAX];
  const char *path = f->store->dir.path;
  const char *key = dlk_quote(q, f->op->key, f->op->key_len);
  switch (error) {
  case EEXIST:
    return dlk_error_set(err, DLK_INVALID,
                         "the lock file of %s in %s is another key's; use a "
                         "file system that tells upper from lower case",
                         key, path);
  case EPROTO:
    name[0] = '\0';
    dlk_file_key_name(&f->store->dir, f->op->key, f->op->key_len, name);
    return dlk_error_set(err, DLK_UNAVAILABLE,
                         "%s is no lock file of ours (plain, mode 01600, one "
                         "name, begins with ldfile01) and is left alone, so "
                         "%s cannot be locked in %s; move it, or give dlock a "
                         "directory of its own",
                         name, key, path);
  case EBADMSG:
    return dlk_error_set(err, DLK_UNAVAILABLE,
                         "%s/~store is no file of ours (plain, mode 01600, "
                         "begins with fdmeta01) and is left alone; move it, or "
                         "give dlock a directory of its own",
                         path);
  case ENAMETOOLONG:
    return dlk_error_set(err, DLK_INVALID,
                         "the key %s is too long with its "
                         "prefix; use a shorter prefix",
                         key);
  case EACCES:
    if (shut(&f->store->dir, err))
      return err->code;
    /* fall through */
  case EPERM:
    return dlk_error_set(
        err, DLK_DENIED,
        "cannot use the lock file of %s in %s: %s; its files "
        "must be our own, mode 01600, on a file system that has FIFOs",
        key, path, strerror(error));
  case ERANGE:
    return dlk_error_set(err, DLK_UNSUPPORTED,
                         "the fences of %s in %s are used up (they must stay "
                         "below 10^14); use another directory",
                         key, path);
  case ENOSYS:
  case EOPNOTSUPP:
    return dlk_error_set(err, DLK_UNSUPPORTED,
                         "the file system of %s has no FIFOs or no locks; use "
                         "a directory on ext4, xfs, btrfs or tmpfs",
                         path);
  default:
    return dlk_error_set(err, dlk_errno_code(error), "cannot lock %s in %s: %s",
                         key, path, dlk_reason(why, error));
  }
}

void dlk_file_fail(struct dlk_file_op *f, int error) {
  struct dlk_error err;
  if (error == EAGAIN || dlk_file_must_go_on(f)) {
    dlk_file_retry(f);
    return;
  }
  explain(f, error, &err);
  dlk_file_end(f, &err);
}

/* ---- connecting ---- */

/* Unlocks "~store", and sweeps if that is our turn. */
static void leave_meta(struct dlk_file_store *s, bool may_sweep) {
  int64_t from;
  bool sweep = may_sweep && dlk_file_sweep_due(&s->dir, &from);
  dlk_file_unlock(s->dir.meta);
  if (sweep)
    dlk_file_sweep_start(s, from);
}

/* A pipe without its name is made anew: others take us for dead. */
static int connect_wake(struct dlk_file_store *s, bool check) {
  struct dlk_file_dir *d = &s->dir;
  if (d->wake >= 0 && !(check && dlk_file_wake_lost(d)))
    return 0;
  int error = d->read_only ? EROFS : dlk_file_meta_lock(d);
  if (error == 0) {
    dlk_file_wake_close(d);
    error = dlk_file_wake_open(d);
    leave_meta(s, error == 0);
  }
  if (error != ENOENT || !dlk_file_dir_lost(d))
    return error;
  dlk_file_disconnect(d);
  return EAGAIN;
}

/* An op without an entry needs no pipe. On a read-only file system only ops
 * that look go on. */
static bool needs_pipe(const struct dlk_op *op, int error) {
  switch (op->kind) {
  case DLK_OP_LOCKED:
  case DLK_OP_INSPECT:
  case DLK_OP_LIST:
  case DLK_OP_CHANGE:
    return error != EACCES && error != EROFS;
  case DLK_OP_BREAK:
  case DLK_OP_REVOKE:
    return error != EACCES;
  default:
    return true;
  }
}

int dlk_file_ready(struct dlk_file_op *f) {
  struct dlk_file_store *s = f->store;
  struct dlk_error err;
  if (s->dir.stopping) {
    dlk_file_end_code(f, DLK_CLOSED);
    return ECANCELED;
  }
  if (s->dir.fd < 0 && dlk_file_dir_open(&s->dir, &err) != DLK_OK) {
    dlk_file_end(f, &err);
    return ECANCELED;
  }
  int error = connect_wake(s, f->op->kind != DLK_OP_RELEASE);
  if (error == 0 || !needs_pipe(f->op, error))
    return 0;
  if (error == EXDEV) {
    dlk_error_set(&err, DLK_UNSUPPORTED,
                  "processes that see another boot id use %s; show all one "
                  "/proc/sys/kernel/random/boot_id, or name another directory",
                  s->dir.path);
    dlk_file_end(f, &err);
    return ECANCELED;
  }
  dlk_file_fail(f, error);
  return ECANCELED;
}

int dlk_file_visit(struct dlk_file_op *f, bool create,
                   struct dlk_file_key **out) {
  struct dlk_file_store *s = f->store;
  if (dlk_file_ready(f) != 0)
    return ECANCELED;
  /* A store that makes many files sweeps too. */
  if (s->dir.created >= CREATED_MANY) {
    s->dir.created = 0;
    if (dlk_file_meta_try_lock(&s->dir) == 0)
      leave_meta(s, true);
  }
  int error =
      dlk_file_key_enter(&s->dir, f->op->key, f->op->key_len, create, out);
  if (error == 0 || (error == ENOENT && !create))
    return error;
  if (!create && f->op->lease != NULL && dlk_file_key_gone(error))
    return ENOENT;
  dlk_file_fail(f, error);
  return ECANCELED;
}

int dlk_file_commit(struct dlk_file_dir *d, struct dlk_file_key *k) {
  dlk_file_tell(d);
  return dlk_file_key_leave(d, k);
}

bool dlk_file_finish(struct dlk_file_op *f, struct dlk_file_key *k) {
  int error = dlk_file_commit(&f->store->dir, k);
  if (error != 0)
    dlk_file_fail(f, error);
  return error == 0;
}

bool dlk_file_finish_entry(struct dlk_file_op *f, struct dlk_file_key *k,
                           uint64_t seq) {
  int error = dlk_file_commit(&f->store->dir, k);
  if (f->store->dir.table.head.seq != seq)
    f->phase = DLK_FILE_QUEUED;
  if (error != 0)
    dlk_file_fail(f, error);
  return error == 0;
}

/* EAGAIN: a damaged table was made anew. */
bool dlk_file_finish_first(struct dlk_file_op *f, struct dlk_file_key *k,
                           uint64_t seq) {
  struct dlk_file_dir *d = &f->store->dir;
  int error = dlk_file_commit(d, k);
  bool done = error == 0 || (error != EAGAIN && d->table.head.seq != seq);
  if (!done)
    dlk_file_fail(f, error);
  return done;
}
