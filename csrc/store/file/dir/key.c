/* Key files: opened, locked, loaded, and deleted when idle.
 *
 * K1  After taking the mutex a store looks whether the name leads to the open
 *     file, and else opens the name again. So holds in a file moved or replaced
 *     by hand count as lost.
 * K2  A file is deleted under its mutex, with an empty table or a remnant,
 *     while its name leads to it. So nobody holds a key in a nameless file: an
 *     earlier entry is in the table, a later one meets K1.
 * K3  The last fence is in "~store" before the name goes.
 * K4  Idle files are deleted when they leave the cache, when the store closes,
 *     and by the sweep.
 * K5  A descriptor is asked for its file unless it shows the header (`seen`, by
 *     its checksum) that it showed when it was asked: no other file has that
 *     one. So a number that the program closed leads to no other file of ours.
 */
#include "store/file/dir/key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/file/dir/liveness.h"
#include "store/file/dir/meta.h"
#include "store/file/dir/process.h"

#define TRIES 8
#define FILES_MAX 64 /* key files kept open */
#define DAMAGED "a damaged lock file"

static void forget(struct dlk_file_dir *d, struct dlk_file_key *k) {
  dlk_map_remove(&d->keys, &k->node);
  dlk_list_remove(&k->link);
  d->key_count--;
  dlk_file_fd_close(k->fd);
  free(k);
}

/* Whether the name leads to the file that was opened (K1). */
static bool named(const struct dlk_file_dir *d, struct dlk_file_key *k) {
  struct stat there;
  if (fstatat(d->fd, k->name, &there, AT_SYMLINK_NOFOLLOW) != 0 ||
      !dlk_file_same(&there, &k->file))
    return dlk_file_named(d, k->name, k->fd, &k->file);
  k->file = there;
  return true;
}

/* K5 */
static int read_table(struct dlk_file_dir *d, struct dlk_file_key *k) {
  struct stat st;
  int error = dlk_file_table_load(&d->table, k->fd);
  if (error == 0 && d->table.head.check == k->seen)
    return 0;
  if (fstat(k->fd, &st) != 0 || !dlk_file_same(&st, &k->file))
    return ESTALE;
  k->seen = d->table.head.check;
  return error;
}

/* ---- closing ---- */

bool dlk_file_key_said(const char *name, int fd) {
  char key[DLK_FILE_NAMED];
  long n = dlk_file_table_get_key(fd, key);
  return n >= 0 && dlk_file_name_is(name, key, (size_t)n);
}

/* A damaged file stays until its key is asked for. */
void dlk_file_key_delete_idle(struct dlk_file_dir *d, const char *name,
                              int fd) {
  const struct dlk_file_head *h = &d->table.head;
  struct stat st;
  int error = dlk_file_table_load(&d->table, fd);
  bool idle = error == 0 && !d->table.torn && dlk_file_key_said(name, fd);
  if (error == ENODATA)
    idle = fstat(fd, &st) == 0 && (st.st_mode & 07777) == DLK_FILE_NEW;
  else if (!dlk_file_remnant(d))
    idle = idle && h->count[DLK_FILE_HELD] == 0 &&
           h->count[DLK_FILE_WAIT] == 0 && h->count[DLK_FILE_WATCH] == 0;
  if (!idle || dlk_file_meta_lock(d) != 0)
    return;
  if (dlk_file_named(d, name, fd, NULL) &&
      dlk_file_fence_keep(d, h->fence) == 0)
    unlinkat(d->fd, name, 0);
  dlk_file_unlock(d->meta);
}

/* Closes the file, and deletes it if it is idle. */
static void retire(struct dlk_file_dir *d, struct dlk_file_key *k) {
  if (d->fd >= 0 && dlk_file_try_lock(k->fd) == 0) {
    dlk_file_key_delete_idle(d, k->name, k->fd);
    dlk_file_unlock(k->fd);
  }
  forget(d, k);
}

/* ---- opening ---- */

int dlk_file_key_open(struct dlk_file_dir *d, const char *name, bool create) {
  mode_t mode = create ? DLK_FILE_NEW : 0;
  int fd = dlk_file_own_open(d, name, mode, true);
  while ((fd == -EMFILE || fd == -ENFILE) && !dlk_list_empty(&d->recent)) {
    retire(d, DLK_CONTAINER(d->recent.next, struct dlk_file_key, link));
    fd = dlk_file_own_open(d, name, mode, true);
  }
  return fd;
}

bool dlk_file_key_gone(int error) {
  return error == ENOENT || error == EPROTO || error == EEXIST;
}

static bool full_key(const struct dlk_file_dir *d, const char *key, size_t len,
                     char out[DLK_FILE_NAMED]) {
  if (d->prefix_len + len > DLK_FILE_NAMED)
    return false;
  memcpy(out, d->prefix, d->prefix_len);
  memcpy(out + d->prefix_len, key, len);
  return true;
}

bool dlk_file_key_name(const struct dlk_file_dir *d, const char *key,
                       size_t len, char out[DLK_FILE_NAME]) {
  char full[DLK_FILE_NAMED];
  bool ok = full_key(d, key, len, full);
  if (ok)
    dlk_file_name(out, full, d->prefix_len + len);
  return ok;
}

/* The file becomes the most recently used one. */
static int find(struct dlk_file_dir *d, const char *key, size_t len,
                bool create, struct dlk_file_key **out) {
  char full[DLK_FILE_NAMED];
  size_t n = d->prefix_len + len;
  if (!full_key(d, key, len, full))
    return ENAMETOOLONG;
  struct dlk_map_node *node = dlk_map_get(&d->keys, full, n);
  struct dlk_file_key *k =
      node ? DLK_CONTAINER(node, struct dlk_file_key, node) : NULL;
  if (k != NULL) {
    dlk_list_remove(&k->link);
    dlk_list_append(&d->recent, &k->link);
    *out = k;
    return 0;
  }
  if (d->key_count >= FILES_MAX)
    retire(d, DLK_CONTAINER(d->recent.next, struct dlk_file_key, link));
  k = calloc(1, sizeof *k + n);
  if (k == NULL)
    return ENOMEM;
  memcpy(k->key, full, n);
  k->len = n;
  dlk_file_name(k->name, full, n);
  k->fd = dlk_file_key_open(d, k->name, create);
  int error = k->fd < 0 ? -k->fd : 0;
  if (error == 0 && !dlk_map_put(&d->keys, &k->node, k->key, n))
    error = ENOMEM;
  if (error != 0) {
    dlk_file_fd_close(k->fd);
    free(k);
    return error;
  }
  dlk_list_append(&d->recent, &k->link);
  d->key_count++;
  *out = k;
  return 0;
}

/* A wrong key is another key's if that one's name leads here too: the file
 * system ignores case. Else it is damage, and written again. */
static int check_key(struct dlk_file_dir *d, struct dlk_file_key *k) {
  char key[DLK_FILE_NAMED], name[DLK_FILE_NAME];
  int error = 0;
  long n = dlk_file_table_get_key(k->fd, key);
  if (n < 0 && n != -EUCLEAN)
    return (int)-n;
  if (n != (long)k->len || memcmp(key, k->key, k->len) != 0) {
    dlk_file_name(name, key, n < 0 ? 0 : (size_t)n);
    if (n > 0 && dlk_file_named(d, name, k->fd, NULL))
      return EEXIST;
    error = dlk_file_table_set_key(k->fd, k->key, k->len);
  }
  k->checked = error == 0;
  return error;
}

/* The larger one of the table's fence and the floor goes on. */
static int begin(struct dlk_file_dir *d, struct dlk_file_key *k) {
  int64_t fence = d->table.head.fence, floor;
  int error = dlk_file_fence_floor(d, &floor);
  if (error == 0)
    error = dlk_file_table_set_key(k->fd, k->key, k->len);
  if (error != 0)
    return error == ENOENT ? ESTALE : error;
  k->checked = true;
  d->created++;
  dlk_file_table_make(&d->table, k->fd, fence > floor ? fence : floor, d->boot);
  return 0;
}

/* A new table or a remnant is begun anew. Without our magic a file is damaged
 * if we saw that before, or a loss of power may have taken it. */
static int load(struct dlk_file_dir *d, struct dlk_file_key *k) {
  mode_t mode = k->file.st_mode & 07777;
  int error = read_table(d, k);
  if (d->read_only && (error != 0 || dlk_file_remnant(d)))
    return error == 0 || error == ENODATA ? ENOENT : error;
  if (d->read_only)
    return 0;
  if (error == ENODATA && mode == DLK_FILE_NEW)
    return begin(d, k);
  if ((error == ENODATA && dlk_file_marked(mode)) ||
      ((error == ENODATA || error == EPROTO) && k->checked))
    return EUCLEAN;
  if (error != 0)
    return error == ENODATA ? EPROTO : error;
  if (dlk_file_remnant(d))
    return begin(d, k);
  if (d->table.torn)
    return EUCLEAN;
  return k->checked ? 0 : check_key(d, k);
}

/* ---- damage ----
 *
 * A damaged table does not show its holders, and a stopped one cannot be asked.
 * They live in this directory, and believe in a hold for its ttl without a look
 * at the table. So
 * - if no other store lives here, and no hold of the key is ours, nobody needs
 *   protection;
 * - else the new table begins with a guard: a hold of instance 0 for the
 *   longest ttl ever asked for here. All stores look at their holds. break_lock
 *   ends the guard.
 * Waiters join again.
 *
 * One damaged header is enough: the last change may have been a grant. A header
 * lies within a page, so a killed process damages none; a loss of power may. */

static int guard(struct dlk_file_dir *d, const char *key, size_t len) {
  struct dlk_file_table *t = &d->table;
  int64_t ttl, now = d->host->now(d->host);
  if (!d->user->holds(d, key, len) && !dlk_file_peers_alive(d))
    return 0;
  dlk_file_peers_wake(d);
  int error = dlk_file_ttl_longest(d, &ttl);
  uint32_t index = error == 0 ? dlk_file_table_take(t) : 0;
  if (index == 0)
    return error != 0 ? error : t->error;
  struct dlk_file_slot *slot = dlk_file_table_edit(t, index);
  slot->since = now;
  slot->until = dlk_time_add(now, ttl);
  slot->ttl = ttl;
  slot->fence = ++t->head.fence;
  memcpy(slot->owner, DAMAGED, sizeof DAMAGED);
  dlk_file_table_append(t, index, DLK_FILE_HELD);
  d->holders_changed = true;
  return t->error;
}

/* Killed in between we leave an unreadable table. */
static int mend(struct dlk_file_dir *d, struct dlk_file_key *k) {
  int64_t fence = d->table.head.fence; /* of the header that is left */
  int error = dlk_file_table_wipe(k->fd);
  if (error == 0)
    error = dlk_file_table_load(&d->table, k->fd);
  d->table.head.fence = fence;
  if (error == ENODATA)
    error = begin(d, k);
  if (error == 0)
    error = guard(d, k->key + d->prefix_len, k->len - d->prefix_len);
  if (error == 0)
    error = dlk_file_table_commit(&d->table);
  if (error == 0)
    d->host->event(d->host, "damaged",
                   "a lock file was damaged and has been made anew; who may "
                   "have held the lock has its ttl to notice");
  return error;
}

int dlk_file_key_enter(struct dlk_file_dir *d, const char *key, size_t len,
                       bool create, struct dlk_file_key **out) {
  struct dlk_file_key *k = NULL;
  for (int i = 0; i < TRIES; i++) {
    int error = find(d, key, len, create, &k);
    if (error == ENOENT && create && dlk_file_dir_lost(d)) {
      dlk_file_disconnect(d);
      return EAGAIN;
    }
    if (error != 0)
      return error;
    error = dlk_file_lock(k->fd);
    if (error != 0)
      return error;
    d->holders_changed = false;
    if (named(d, k))
      error = load(d, k);
    else
      error = ESTALE;
    if (error == EUCLEAN && !d->read_only)
      error = mend(d, k);
    if (error == 0) {
      *out = k;
      return 0;
    }
    dlk_file_unlock(k->fd);
    if (error != ESTALE)
      return error;
    forget(d, k);
  }
  return EAGAIN;
}

int dlk_file_key_enter_own(struct dlk_file_dir *d, const char *key, size_t len,
                           const struct dlk_file_entry *e,
                           struct dlk_file_key **out) {
  if (e->instance != d->instance)
    return ENOENT;
  int error = dlk_file_key_enter(d, key, len, false, out);
  return dlk_file_key_gone(error) ? ENOENT : error;
}

int dlk_file_key_leave(struct dlk_file_dir *d, struct dlk_file_key *k) {
  int error = dlk_file_table_commit(&d->table);
  if (error == 0)
    k->seen = d->table.head.check;
  if (error == 0 && (k->file.st_mode & 07777) != DLK_FILE_MADE)
    fchmod(k->fd, DLK_FILE_MADE);
  if (error == EUCLEAN) {
    mend(d, k);
    error = EAGAIN;
  }
  dlk_file_unlock(k->fd);
  return error;
}

/* Without the mutex it may be half of a write. */
static int unlocked(int error) {
  return error == EUCLEAN ? EAGAIN : error;
}

int dlk_file_key_peek(struct dlk_file_dir *d, const char *key, size_t len,
                      struct dlk_file_entry *e, struct dlk_file_slot *out) {
  struct dlk_file_key *k = NULL;
  for (int i = 0; i < TRIES; i++) {
    if (d->fd < 0 || e->instance != d->instance)
      return ENOENT;
    int error = find(d, key, len, false, &k);
    if (error != 0 || k == NULL)
      return dlk_file_key_gone(error) ? ENOENT : error;
    error = named(d, k) ? read_table(d, k) : ESTALE;
    if (error == ESTALE) {
      forget(d, k);
      continue;
    }
    if (error == ENODATA || error == EPROTO)
      return ENOENT;
    if (error != 0)
      return unlocked(error);
    bool in = e->slot != 0 && e->slot <= d->table.head.slots;
    if (in)
      *out = *dlk_file_table_at(&d->table, e->slot);
    if (d->table.error != 0)
      return unlocked(d->table.error);
    if (in && dlk_file_ours(e, out))
      return 0;
    return ENOENT;
  }
  return EAGAIN;
}

void dlk_file_disconnect(struct dlk_file_dir *d) {
  d->user->disconnected(d);
  while (!dlk_list_empty(&d->recent))
    retire(d, DLK_CONTAINER(d->recent.next, struct dlk_file_key, link));
  dlk_file_wake_close(d);
  dlk_file_meta_close(d);
  dlk_file_fd_close(d->fd);
  d->fd = -1;
  if (d->temporary)
    dlk_file_temporary_leave();
}
