/* Key files: opened, locked, loaded, and deleted when idle.
 *
 * A file may be deleted by any store at any moment when nothing is in it, so
 * after taking the mutex one looks whether the file still has a name; if not,
 * it is closed and the name opened (or made) again. Who deletes has the
 * mutex, has seen a table that is empty (or that whoever enters would begin
 * anew with nothing in it, see below), and has compared the name's inode with
 * the one that is open; so nobody can come to hold a key in a file without
 * name: it would have to enter the table under the mutex, before (then the
 * table is not empty) or after (then the missing name is seen). The last fence
 * is kept in "~store" before the name goes. The same look finds files that
 * somebody deleted by hand: their holds count as lost.
 *
 * A table that was written under another boot id is usually one of before a
 * restart of the machine: all who stand in it are dead, times in it (of
 * CLOCK_BOOTTIME) mean nothing, and a part of it may never have reached the
 * disk. But containers that share a directory may be told different ids. So
 * the id alone proves nothing: such a table is a remnant, and is begun anew,
 * only when the pipe of nobody who stands in it has a reader (liveness.c). A
 * pipe lives in the directory as the table does, so this holds in any
 * container. While somebody lives the table is used as it is. Where the id
 * cannot be read nothing is locked at all (dir.c): an id that was made up would
 * find every table to be another's.
 *
 * In a remnant that is damaged somebody may stand whom it does not show. So it
 * is deleted only when there is nobody to protect, by the rule for entering it
 * (damage.c): no other store lives here, and no hold of the key is ours.
 *
 * A hold of nobody (the rest of a min_hold, or the one after damage, damage.c)
 * has no pipe: its times alone say whether it stands. It stands while since <=
 * now < until. Under another boot id of the same machine that is so, and such a
 * hold goes over into the new table, with which it is written at once: whoever
 * is killed leaves the old table or the new one. After a restart the clock has
 * begun anew, so it is so only by chance; then the key is kept for what seems
 * to be left, which is less than until - since: the ttl or min_hold that was
 * asked for. Several of them become one, which is exclusive and ends with the
 * last. The min_hold of a holder that died does not go over: a crash of the
 * machine leaves many of these, and jobs that begin with the machine would
 * find their own of last time.
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

#include "store/file/dir/damage.h"
#include "store/file/dir/descriptors.h"
#include "store/file/dir/liveness.h"
#include "store/file/dir/meta.h"

#define TRIES 8
#define FILES_MAX 64 /* key files kept open */

static void forget(struct dlk_file_dir *d, struct dlk_file_key *k) {
  dlk_map_remove(&d->keys, &k->node);
  dlk_list_remove(&k->link);
  d->key_count--;
  dlk_file_fd_close(k->fd);
  free(k);
}

static bool named(struct dlk_file_key *k) {
  struct stat st;
  if (fstat(k->fd, &st) != 0 || st.st_nlink == 0)
    return false;
  k->mode = st.st_mode & 07777;
  return true;
}

/* ---- tables of another boot id ---- */

/* What counts in a table of which nobody lives: the hold of nobody (until 0:
 * none), and that some of it cannot be read. */
struct rest {
  struct dlk_file_slot hold;
  bool damaged;
};

/* One more hold of nobody. */
static void add(struct rest *r, const struct dlk_file_slot *slot) {
  bool others = r->hold.until != 0;
  if (slot->until > r->hold.until)
    r->hold = *slot;
  r->hold.value_len = 0;
  if (others)
    r->hold.units = r->hold.cap = 0;
}

static bool stands(const struct dlk_file_slot *slot, int64_t now) {
  return slot->list == DLK_FILE_HELD && slot->since <= now && now < slot->until;
}

/* Whether somebody who stands in the table lives, or nobody can tell; and what
 * counts if not. It goes by the slots and not by the lists: after a loss of
 * power some of what was written may be missing. */
static bool anybody(struct dlk_file_dir *d, struct rest *r) {
  struct dlk_file_table *t = &d->table;
  int64_t now = d->host->now(d->host);
  uint64_t dead = 0;
  *r = (struct rest){.damaged = t->torn};
  for (uint32_t i = 1; i <= t->head.slots; i++) {
    struct dlk_file_slot slot = *dlk_file_table_at(t, i);
    bool damaged = t->error == EUCLEAN;
    if (damaged)
      t->error = 0;
    if (t->error != 0)
      return true;
    r->damaged = r->damaged || damaged;
    if (damaged || slot.list == DLK_FILE_FREE)
      continue;
    if (slot.instance == 0 && stands(&slot, now))
      add(r, &slot);
    if (slot.instance == dead)
      continue;
    if (dlk_file_peer_alive(d, slot.instance))
      return true;
    dead = slot.instance;
  }
  return false;
}

/* Whether nobody of another boot id's table lives. */
static bool left(struct dlk_file_dir *d, struct rest *r) {
  return memcmp(d->table.head.boot, d->boot, sizeof d->boot) != 0 &&
         !anybody(d, r);
}

bool dlk_file_key_remnant(struct dlk_file_dir *d) {
  struct rest r;
  return left(d, &r) && r.hold.until == 0 && !r.damaged;
}

/* Whether a lock may be held that its damaged table does not show. The key with
 * its prefix: one with another is none of ours. */
static bool may_be_held(struct dlk_file_dir *d, const char *key, size_t len) {
  size_t n = d->prefix_len;
  if (len < n || memcmp(key, d->prefix, n) != 0)
    return dlk_file_peers_alive(d);
  return dlk_file_guard_needed(d, key + n, len - n);
}

/* Whether the loaded table would be begun anew with nothing in it. */
static bool is_needless(struct dlk_file_dir *d, const char *key, size_t len) {
  struct rest r;
  return left(d, &r) && r.hold.until == 0 &&
         !(r.damaged && may_be_held(d, key, len));
}

/* ---- idle files ---- */

static bool still_at(struct dlk_file_dir *d, const char *name, int fd) {
  struct stat a, b;
  return fstat(fd, &a) == 0 &&
         fstatat(d->fd, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
         a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Whether a file under this name is a key's, with its table loaded (error: the
 * answer to that); and that key, with its prefix. One that was just made may
 * have no key in it yet. */
static bool is_keys(const char *name, int fd, int error,
                    char key[DLK_FILE_NAMED], size_t *len) {
  char made[DLK_FILE_NAME];
  struct stat st;
  *len = 0;
  if (error == ENODATA)
    return fstat(fd, &st) == 0 && (st.st_mode & 07777) == DLK_FILE_NEW;
  long n = error != 0 ? -1 : dlk_file_table_get_key(fd, key);
  if (n < 0)
    return false;
  *len = (size_t)n;
  dlk_file_name(made, key, *len);
  return strcmp(made, name) == 0;
}

/* With the file's mutex: deletes it if nothing is in it that counts. */
void dlk_file_key_delete_idle(struct dlk_file_dir *d, const char *name,
                              int fd) {
  static const int lists[] = {DLK_FILE_HELD, DLK_FILE_WAIT, DLK_FILE_WATCH};
  char key[DLK_FILE_NAMED];
  size_t len;
  int error = dlk_file_table_load(&d->table, fd);
  if (!is_keys(name, fd, error, key, &len))
    return;
  bool used = error == 0 && d->table.torn;
  for (size_t i = 0; error == 0 && i < 3; i++)
    used = used || d->table.head.count[lists[i]] > 0;
  if (used && !is_needless(d, key, len))
    return;
  int64_t fence = d->table.head.fence;
  if (dlk_file_meta_lock(d) != 0)
    return;
  if (still_at(d, name, fd) && dlk_file_fence_keep(d, fence) == 0)
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
  int fd = dlk_file_own_open(d, name, mode);
  while ((fd == -EMFILE || fd == -ENFILE) && !dlk_list_empty(&d->recent)) {
    retire(d, DLK_CONTAINER(d->recent.next, struct dlk_file_key, link));
    fd = dlk_file_own_open(d, name, mode);
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
  if (node != NULL) {
    *out = DLK_CONTAINER(node, struct dlk_file_key, node);
    dlk_list_remove(&(*out)->link);
    dlk_list_append(&d->recent, &(*out)->link);
    return 0;
  }
  if (d->key_count >= FILES_MAX)
    retire(d, DLK_CONTAINER(d->recent.next, struct dlk_file_key, link));
  struct dlk_file_key *k = calloc(1, sizeof *k + n);
  if (k == NULL)
    return ENOMEM;
  memcpy(k->key, full, n);
  k->len = n;
  dlk_file_name(k->name, full, n);
  k->fd = dlk_file_key_open(d, k->name, create);
  if (k->fd < 0 || !dlk_map_put(&d->keys, &k->node, k->key, n)) {
    int error = k->fd < 0 ? -k->fd : ENOMEM;
    dlk_file_fd_close(k->fd);
    free(k);
    return error;
  }
  dlk_list_append(&d->recent, &k->link);
  d->key_count++;
  *out = k;
  return 0;
}

/* Two keys have one name only where case does not matter (or by a collision of
 * hashes). A key in the file that has another name is damage, and written
 * again: the name says what it is. */
static int check_key(struct dlk_file_key *k) {
  char key[DLK_FILE_NAMED], name[DLK_FILE_NAME] = "";
  int error = 0;
  long n = dlk_file_table_get_key(k->fd, key);
  if (n < 0 && n != -EUCLEAN)
    return (int)-n;
  if (n >= 0)
    dlk_file_name(name, key, (size_t)n);
  bool same = n == (long)k->len && memcmp(key, k->key, k->len) == 0;
  if (!same && dlk_file_name_alike(name, k->name))
    return EEXIST;
  if (!same)
    error = dlk_file_table_set_key(k->fd, k->key, k->len);
  k->checked = error == 0;
  return error;
}

/* Of a table of before a restart the fence is taken over, if it is the larger
 * one, and the hold of nobody. */
static int begin(struct dlk_file_dir *d, struct dlk_file_key *k,
                 const struct dlk_file_slot *hold) {
  int64_t fence = d->table.head.fence, floor;
  int error = dlk_file_fence_floor(d, &floor);
  if (error == 0)
    error = dlk_file_table_set_key(k->fd, k->key, k->len);
  if (error != 0)
    return error == ENOENT ? ESTALE : error;
  k->checked = true;
  d->created++;
  dlk_file_table_make(&d->table, k->fd, fence > floor ? fence : floor, d->boot);
  if (hold->until == 0)
    return 0;
  dlk_file_table_keep(&d->table, hold);
  return dlk_file_table_commit(&d->table);
}

/* Begins a table anew in which nobody lives. In one that is damaged somebody
 * may have stood whom it does not show (damage.c). */
static int begin_left(struct dlk_file_dir *d, struct dlk_file_key *k,
                      struct rest *r) {
  struct dlk_file_slot guard = {0};
  int error = 0;
  if (r->damaged)
    error = dlk_file_guard_make(d, k->key + d->prefix_len,
                                k->len - d->prefix_len, &guard);
  if (guard.until != 0)
    add(r, &guard);
  return error == 0 ? begin(d, k, &r->hold) : error;
}

static int guard_living(struct dlk_file_dir *d, const struct dlk_file_key *k) {
  return dlk_file_guard_living(d, k->key + d->prefix_len,
                               k->len - d->prefix_len);
}

/* Without our magic: whether we have seen it there, or a loss of power can have
 * taken it from a file of ours. */
static bool was_ours(const struct dlk_file_key *k, int error) {
  return k->checked || (error == ENODATA && dlk_file_marked(k->mode));
}

/* Loads the table; one that is new, or of before a restart, is begun. */
static int load(struct dlk_file_dir *d, struct dlk_file_key *k) {
  struct rest r = {0};
  int error = dlk_file_table_load(&d->table, k->fd);
  if (error == ENODATA && k->mode == DLK_FILE_NEW)
    return begin(d, k, &r.hold);
  if (error == ENODATA || error == EPROTO)
    return was_ours(k, error) ? EUCLEAN : EPROTO;
  if (error != 0)
    return error;
  if (left(d, &r))
    return begin_left(d, k, &r);
  if (d->table.error != 0)
    return d->table.error;
  error = k->checked ? 0 : check_key(k);
  if (error == 0 && d->table.torn)
    error = guard_living(d, k);
  return error;
}

/* A table that cannot be read is begun anew, as damage.c says. Killed in
 * between we leave one that cannot be read either. */
static int mend(struct dlk_file_dir *d, struct dlk_file_key *k) {
  static const struct dlk_file_slot nothing;
  int error = dlk_file_table_wipe(k->fd);
  if (error == 0)
    error = dlk_file_table_load(&d->table, k->fd);
  if (error == ENODATA)
    error = begin(d, k, &nothing);
  if (error == 0)
    error = guard_living(d, k);
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
    if (error == ENOENT && create)
      dlk_file_disconnect(d);
    if (error != 0)
      return error == ENOENT && create ? EAGAIN : error;
    error = dlk_file_lock(k->fd);
    if (error != 0)
      return error;
    d->holders_changed = false;
    if (named(k))
      error = load(d, k);
    else
      error = ESTALE;
    if (error == EUCLEAN)
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
                      const struct dlk_file_entry *e,
                      struct dlk_file_slot *out) {
  struct dlk_file_key *k = NULL;
  for (int i = 0; i < TRIES; i++) {
    if (d->fd < 0 || e->instance != d->instance)
      return ENOENT;
    int error = find(d, key, len, false, &k);
    if (error != 0 || k == NULL)
      return dlk_file_key_gone(error) ? ENOENT : error;
    if (!named(k)) {
      forget(d, k);
      continue;
    }
    error = dlk_file_table_load(&d->table, k->fd);
    if (error == ENODATA || error == EPROTO)
      return ENOENT;
    if (error != 0)
      return unlocked(error);
    if (e->slot > d->table.head.slots)
      return ENOENT;
    *out = *dlk_file_table_at(&d->table, e->slot);
    if (d->table.error != 0)
      return unlocked(d->table.error);
    return dlk_file_ours(e, out) ? 0 : ENOENT;
  }
  return EAGAIN;
}

void dlk_file_disconnect(struct dlk_file_dir *d) {
  d->user->disconnected(d);
  while (!dlk_list_empty(&d->recent))
    retire(d, DLK_CONTAINER(d->recent.next, struct dlk_file_key, link));
  dlk_file_wake_close(d);
  dlk_file_fd_close(d->meta);
  dlk_file_fd_close(d->fd);
  d->meta = d->fd = -1;
}
