/* Key files: opened, locked, loaded, and deleted when idle.
 *
 * A file may be deleted by any store at any moment when nothing is in it, so
 * after taking the mutex one looks whether the file still has a name; if not,
 * it is closed and the name opened (or made) again. Who deletes has the
 * mutex, has seen an empty table, and has compared the name's inode with the
 * one that is open; so nobody can come to hold a key in a file without name:
 * it would have to enter the table under the mutex, before (then the table is
 * not empty) or after (then the missing name is seen). The last fence is kept
 * in "~store" before the name goes. The same look finds files that somebody
 * deleted by hand: their holds count as lost.
 *
 * Idle files are deleted when they fall out of the cache of open ones, when
 * the store is closed, and by the sweep, which finds those of killed
 * processes; so their number is bounded by what is held and waited for, and
 * DLK_FILE_OPEN_MAX for each live store. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/file/internal.h"

#define TRIES 8

static void forget(struct dlk_file_store *s, struct dlk_file_key *k) {
  dlk_map_remove(&s->keys, &k->node);
  dlk_list_remove(&k->link);
  s->key_count--;
  dlk_file_fd_close(k->fd);
  free(k);
}

static bool named(const struct dlk_file_key *k) {
  struct stat st;
  return fstat(k->fd, &st) == 0 && st.st_nlink > 0;
}

static int open_fd(struct dlk_file_store *s, const char *name, bool create) {
  struct stat st;
  int flags = O_RDWR | O_NONBLOCK | O_NOATIME | (create ? O_CREAT : 0);
  int fd = dlk_file_fd_open(s->dir, name, flags);
  while ((fd == -EMFILE || fd == -ENFILE) && !dlk_list_empty(&s->recent)) {
    dlk_file_key_retire(
        s, DLK_CONTAINER(s->recent.next, struct dlk_file_key, link));
    fd = dlk_file_fd_open(s->dir, name, flags);
  }
  if (fd < 0)
    return fd;
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
    return fd;
  dlk_file_fd_close(fd);
  return -EPROTO;
}

/* The open file of a key, the most recently used one from now on. */
static int find(struct dlk_file_store *s, const char *key, size_t len,
                bool create, struct dlk_file_key **out) {
  char full[DLK_FILE_NAMED];
  size_t n = s->prefix_len + len;
  if (n > sizeof full)
    return ENAMETOOLONG;
  memcpy(full, s->prefix, s->prefix_len);
  memcpy(full + s->prefix_len, key, len);
  struct dlk_map_node *node = dlk_map_get(&s->keys, full, n);
  if (node != NULL) {
    *out = DLK_CONTAINER(node, struct dlk_file_key, node);
    dlk_list_remove(&(*out)->link);
    dlk_list_append(&s->recent, &(*out)->link);
    return 0;
  }
  if (s->key_count >= DLK_FILE_OPEN_MAX)
    dlk_file_key_retire(
        s, DLK_CONTAINER(s->recent.next, struct dlk_file_key, link));
  struct dlk_file_key *k = calloc(1, sizeof *k + n);
  if (k == NULL)
    return ENOMEM;
  memcpy(k->key, full, n);
  k->len = n;
  dlk_file_name(k->name, full, n);
  k->fd = open_fd(s, k->name, create);
  if (k->fd < 0 || !dlk_map_put(&s->keys, &k->node, k->key, n)) {
    int error = k->fd < 0 ? -k->fd : ENOMEM;
    dlk_file_fd_close(k->fd);
    free(k);
    return error;
  }
  dlk_list_append(&s->recent, &k->link);
  s->key_count++;
  *out = k;
  return 0;
}

static int check_key(struct dlk_file_key *k) {
  char key[DLK_FILE_NAMED];
  long n = dlk_file_table_get_key(k->fd, key);
  if (n < 0)
    return (int)-n;
  if ((size_t)n != k->len || memcmp(key, k->key, k->len) != 0)
    return EEXIST;
  k->checked = true;
  return 0;
}

/* Nobody who wrote an old boot's table lives, and what they wrote may be half
 * on the disk: only its fence is taken over, if it is the larger one. */
static int begin(struct dlk_file_store *s, struct dlk_file_key *k) {
  int64_t fence = s->table.head.fence, floor = dlk_file_fence_floor(s);
  int error = dlk_file_table_set_key(k->fd, k->key, k->len);
  if (error != 0)
    return error;
  k->checked = true;
  s->created++;
  dlk_file_table_make(&s->table, k->fd, fence > floor ? fence : floor, s->boot);
  return 0;
}

/* Loads the table; a new or an old boot's one is begun. */
static int load(struct dlk_file_store *s, struct dlk_file_key *k) {
  int error = dlk_file_table_load(&s->table, k->fd);
  if (error == ENODATA)
    return begin(s, k);
  if (error != 0)
    return error;
  if (memcmp(s->table.head.boot, s->boot, sizeof s->boot) != 0)
    return begin(s, k);
  return k->checked ? 0 : check_key(k);
}

static bool still_at(struct dlk_file_store *s, const char *name, int fd) {
  struct stat a, b;
  return fstat(fd, &a) == 0 &&
         fstatat(s->dir, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
         a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static void damaged(struct dlk_file_store *s, struct dlk_file_key *k) {
  if (still_at(s, k->name, k->fd))
    unlinkat(s->dir, k->name, 0);
  s->host->event(s->host, "damaged",
                 "a lock file was damaged and has been made anew");
}

int dlk_file_key_enter(struct dlk_file_store *s, const char *key, size_t len,
                       bool create, struct dlk_file_key **out) {
  struct dlk_file_key *k = NULL;
  for (int i = 0; i < TRIES; i++) {
    int error = find(s, key, len, create, &k);
    if (error == ENOENT && create)
      dlk_file_disconnect(s);
    if (error != 0)
      return error == ENOENT && create ? EAGAIN : error;
    error = dlk_file_lock(k->fd);
    if (error != 0)
      return error;
    s->holders_changed = false;
    if (named(k))
      error = load(s, k);
    else
      error = ESTALE;
    if (error == 0) {
      *out = k;
      return 0;
    }
    if (error == EUCLEAN)
      damaged(s, k);
    dlk_file_unlock(k->fd);
    if (error != ESTALE && error != EUCLEAN)
      return error;
    forget(s, k);
  }
  return EAGAIN;
}

int dlk_file_key_leave(struct dlk_file_store *s, struct dlk_file_key *k) {
  dlk_file_tell(s);
  int error = dlk_file_table_commit(&s->table);
  if (error == EUCLEAN)
    damaged(s, k);
  dlk_file_unlock(k->fd);
  if (error == EUCLEAN) {
    forget(s, k);
    error = EAGAIN;
  }
  return error;
}

int dlk_file_key_peek(struct dlk_file_store *s, const char *key, size_t len,
                      const struct dlk_file_entry *e,
                      struct dlk_file_slot *out) {
  struct dlk_file_key *k = NULL;
  for (int i = 0; i < TRIES; i++) {
    if (s->dir < 0 || e->instance != s->instance)
      return ENOENT;
    int error = find(s, key, len, false, &k);
    if (error != 0 || k == NULL)
      return error;
    if (!named(k)) {
      forget(s, k);
      continue;
    }
    error = dlk_file_table_load(&s->table, k->fd);
    if (error == ENODATA)
      return ENOENT;
    if (error != 0)
      return error == EUCLEAN ? EAGAIN : error;
    if (e->slot > s->table.head.slots)
      return ENOENT;
    *out = *dlk_file_table_at(&s->table, e->slot);
    if (s->table.error != 0)
      return s->table.error == EUCLEAN ? EAGAIN : s->table.error;
    return dlk_file_ours(e, out) ? 0 : ENOENT;
  }
  return EAGAIN;
}

/* With the file's mutex: deletes it if nothing is in it. */
static void delete_idle(struct dlk_file_store *s, const char *name, int fd) {
  static const int lists[] = {DLK_FILE_HELD, DLK_FILE_WAIT, DLK_FILE_WATCH};
  int error = dlk_file_table_load(&s->table, fd);
  if (error != 0 && error != ENODATA)
    return;
  bool old = memcmp(s->table.head.boot, s->boot, sizeof s->boot) != 0;
  for (size_t i = 0; error == 0 && !old && i < 3; i++)
    if (s->table.head.count[lists[i]] > 0)
      return;
  int64_t fence = s->table.head.fence;
  if (dlk_file_meta_open(s) != 0 || dlk_file_try_lock(s->meta) != 0)
    return;
  if (still_at(s, name, fd) && dlk_file_fence_keep(s, fence) == 0)
    unlinkat(s->dir, name, 0);
  dlk_file_unlock(s->meta);
}

void dlk_file_key_retire(struct dlk_file_store *s, struct dlk_file_key *k) {
  if (s->dir >= 0 && dlk_file_try_lock(k->fd) == 0) {
    delete_idle(s, k->name, k->fd);
    dlk_file_unlock(k->fd);
  }
  forget(s, k);
}

/* Dead holders and waiters of the file leave with it: settle looks at all
 * holders, and grant drops dead waiters from the head on. */
void dlk_file_key_sweep(struct dlk_file_store *s, const char *name) {
  int fd = open_fd(s, name, false);
  if (fd < 0)
    return;
  if (dlk_file_try_lock(fd) == 0) {
    s->holders_changed = false;
    if (dlk_file_table_load(&s->table, fd) == 0 &&
        memcmp(s->table.head.boot, s->boot, sizeof s->boot) == 0) {
      dlk_file_settle(s);
      dlk_file_tell(s);
      dlk_file_table_commit(&s->table);
    }
    delete_idle(s, name, fd);
    dlk_file_unlock(fd);
  }
  dlk_file_fd_close(fd);
}
