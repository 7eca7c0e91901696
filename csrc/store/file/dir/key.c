/* Key files: opened, locked, loaded, and deleted when idle.
 *
 * A file may be deleted by any store at any moment when nothing is in it, so
 * after taking the mutex one looks whether the name still leads to the file; if
 * not, it is closed and the name opened (or made) again. Who deletes has the
 * mutex, has seen a table that is empty or a remnant, and has compared the
 * name's inode with the one that is open; so nobody can come to hold a key in a
 * file that its name does not lead to: it would have to enter the table under
 * the mutex, before (then the table is not empty) or after (then that is seen).
 * The last fence is kept in "~store" before the name goes.
 *
 * The same look finds files that somebody deleted, moved or replaced by hand,
 * whatever other names they have: their holds count as lost.
 *
 * Idle files are deleted when they fall out of the cache of open ones, when
 * the store is closed, and by the sweep, which finds those of killed
 * processes; so their number is bounded by what is held and waited for, and
 * FILES_MAX for each live store. */
#include "store/file/dir/key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/file/dir/descriptors.h"
#include "store/file/dir/liveness.h"
#include "store/file/dir/meta.h"
#include "store/file/dir/temporary.h"

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

static bool named(const struct dlk_file_dir *d, struct dlk_file_key *k) {
  return dlk_file_named(d, k->name, k->fd, &k->file, &k->mode);
}

/* ---- tables of before a restart ----
 *
 * Such a table has another boot id; its times (of CLOCK_BOOTTIME) mean nothing,
 * and a part of it may never have reached the disk. But containers that share a
 * directory may see different ids. So it is a remnant, to be begun anew, only
 * when nobody in it lives: a pipe lies in the directory as the table does.
 *
 * A hold of nobody (the rest of a min_hold, or the guard after damage) has no
 * pipe. It stands while since <= now < until: so it does under another id of
 * the same machine, and after a restart by chance, for what is left of until -
 * since. The min_hold of a dead holder does not count: a job that begins with
 * the machine would find its own of last time. */

/* Whether anybody in the table lives, or nobody can tell. It goes by the slots
 * and not by the lists, of which some may be missing. */
static bool anybody(struct dlk_file_dir *d) {
  struct dlk_file_table *t = &d->table;
  int64_t now = d->host->now(d->host);
  uint64_t dead = 0;
  for (uint32_t i = 1; i <= t->head.slots; i++) {
    const struct dlk_file_slot *slot = dlk_file_table_at(t, i);
    if (t->error != 0 || (slot->list == DLK_FILE_HELD && slot->instance == 0 &&
                          slot->since <= now && now < slot->until))
      return true;
    if (slot->list == DLK_FILE_FREE || slot->instance == dead)
      continue;
    dead = slot->instance;
    if (dlk_file_peer_alive(d, dead))
      return true;
  }
  return false;
}

bool dlk_file_key_remnant(struct dlk_file_dir *d) {
  return memcmp(d->table.head.boot, d->boot, sizeof d->boot) != 0 &&
         !anybody(d);
}

/* ---- closing ---- */

bool dlk_file_key_said(const char *name, int fd) {
  char key[DLK_FILE_NAMED];
  long n = dlk_file_table_get_key(fd, key);
  return n >= 0 && dlk_file_name_is(name, key, (size_t)n);
}

/* A damaged file stays until somebody asks for its key. */
static bool idle(struct dlk_file_dir *d, const char *name, int fd) {
  const uint32_t *count = d->table.head.count;
  struct stat st;
  int error = dlk_file_table_load(&d->table, fd);
  if (error != 0)
    return error == ENODATA && fstat(fd, &st) == 0 &&
           (st.st_mode & 07777) == DLK_FILE_NEW;
  if (d->table.torn || !dlk_file_key_said(name, fd))
    return false;
  bool empty = count[DLK_FILE_HELD] == 0 && count[DLK_FILE_WAIT] == 0 &&
               count[DLK_FILE_WATCH] == 0;
  return empty || dlk_file_key_remnant(d);
}

void dlk_file_key_delete_idle(struct dlk_file_dir *d, const char *name,
                              int fd) {
  struct dlk_file_node node;
  if (!idle(d, name, fd) || dlk_file_meta_lock(d) != 0)
    return;
  if (dlk_file_node_of(fd, &node) == 0 &&
      dlk_file_named(d, name, fd, &node, NULL) &&
      dlk_file_fence_keep(d, d->table.head.fence) == 0)
    unlinkat(d->fd, name, 0);
  dlk_file_unlock(d->meta);
}

/* Closes the file, and deletes it if nothing is in it. */
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

/* The key with its prefix. */
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

/* The open file of a key, the most recently used one from now on. */
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
  int error = k->fd < 0 ? -k->fd : dlk_file_node_of(k->fd, &k->file);
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

/* A key in the file that is not its name's is another key, if its own name
 * leads to this file too: the file system takes the two names for one. Else it
 * is damage, and written again: the name says what it is. */
static int check_key(struct dlk_file_dir *d, struct dlk_file_key *k) {
  char key[DLK_FILE_NAMED], name[DLK_FILE_NAME];
  int error = 0;
  long n = dlk_file_table_get_key(k->fd, key);
  if (n < 0 && n != -EUCLEAN)
    return (int)-n;
  if (n != (long)k->len || memcmp(key, k->key, k->len) != 0) {
    dlk_file_name(name, key, n < 0 ? 0 : (size_t)n);
    if (n > 0 && dlk_file_named(d, name, k->fd, &k->file, NULL))
      return EEXIST;
    error = dlk_file_table_set_key(k->fd, k->key, k->len);
  }
  k->checked = error == 0;
  return error;
}

/* Of a table of before a restart the fence is taken over, if it is the larger
 * one. */
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

/* Without our magic: whether we have seen it there, or a loss of power can have
 * taken it from a file of ours. */
static bool was_ours(const struct dlk_file_key *k, int error) {
  return k->checked || (error == ENODATA && dlk_file_marked(k->mode));
}

/* Loads the table; one that is new, or of before a restart, is begun. */
static int load(struct dlk_file_dir *d, struct dlk_file_key *k) {
  int error = dlk_file_table_load(&d->table, k->fd);
  if ((error == ENODATA || error == EPROTO) &&
      !dlk_file_is_open(k->fd, &k->file))
    return EBADF;
  if (error == ENODATA && k->mode == DLK_FILE_NEW)
    return begin(d, k);
  if (error == ENODATA || error == EPROTO)
    return was_ours(k, error) ? EUCLEAN : EPROTO;
  if (error != 0)
    return error;
  if (d->table.torn)
    return EUCLEAN;
  if (dlk_file_key_remnant(d))
    return begin(d, k);
  if (d->table.error != 0)
    return d->table.error;
  return k->checked ? 0 : check_key(d, k);
}

/* Loads the table where nothing can be begun. */
static int look(struct dlk_file_dir *d, const struct dlk_file_key *k) {
  int error = dlk_file_table_load(&d->table, k->fd);
  bool nobody = error == ENODATA || (error == 0 && dlk_file_key_remnant(d));
  return nobody ? ENOENT : error;
}

/* ---- damage ----
 *
 * A table that something else has written into no longer says who is in it, but
 * they go on believing it. Nobody can be asked, for a holder may be stopped.
 * All who may be in it live in this directory, and none believes in a hold for
 * longer than its ttl without a look at the table. So
 * - if no store lives here but ours, and no hold of the key is ours, there is
 *   nobody to protect;
 * - else the new table begins with a guard: a hold of nobody for the longest
 *   ttl that was ever asked for here ("~store" has it, dlk_file_ttl_keep). All
 *   stores are told to look at what they hold. break_lock ends the guard.
 * Waiters see that their entries are gone, and join again.
 *
 * One damaged header is enough: the other one is the state before the last
 * change, which may have been a grant. A process that is killed does not leave
 * that behind, since a header lies within a page; a loss of power may. */

static int guard(struct dlk_file_dir *d, const char *key, size_t len) {
  struct dlk_file_table *t = &d->table;
  int64_t ttl, now = d->host->now(d->host);
  if (!d->user->holds(d, key, len) && !dlk_file_peers_alive(d))
    return 0;
  dlk_file_peers_wake(d);
  dlk_file_peer_wake(d, d->instance, DLK_FILE_ALL);
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

/* Begins a table that cannot be read anew. Killed in between we leave one that
 * cannot be read either. */
static int mend(struct dlk_file_dir *d, struct dlk_file_key *k) {
  int64_t fence = d->table.head.fence; /* of the header that is left, if any */
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
      error = d->read_only ? look(d, k) : load(d, k);
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
  if (error == 0 && k->mode != DLK_FILE_MADE)
    fchmod(k->fd, DLK_FILE_MADE);
  if (error == EUCLEAN) {
    mend(d, k);
    error = EAGAIN;
  }
  dlk_file_unlock(k->fd);
  return error;
}

/* Without the mutex, what looks damaged may be half of a write. */
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
    if (!named(d, k)) {
      forget(d, k);
      continue;
    }
    error = dlk_file_table_load(&d->table, k->fd);
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
