/* What nobody uses any more: tables of before a restart, and files in which
 * nothing counts.
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
 * A file that has no header left (zeros in the place of both, after a loss of
 * power, or our magic and two wrong sums) says neither who is in it nor under
 * which boot id. Who enters its key begins it anew, and gives the lock away at
 * once if there is nobody to protect (damage.c). So by that rule, and then
 * only, it is deleted. The key is the one that the file says, if it is this
 * name's, else the one that the name says; where neither tells it, as of a name
 * that is a sum, the file stays until somebody asks for its key. */
#include "store/file/dir/idle.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/file/dir/liveness.h"
#include "store/file/dir/meta.h"

/* ---- tables of another boot id ---- */

void dlk_file_rest_add(struct dlk_file_rest *r,
                       const struct dlk_file_slot *slot) {
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
static bool anybody(struct dlk_file_dir *d, struct dlk_file_rest *r) {
  struct dlk_file_table *t = &d->table;
  int64_t now = d->host->now(d->host);
  uint64_t dead = 0;
  *r = (struct dlk_file_rest){.damaged = t->torn};
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
      dlk_file_rest_add(r, &slot);
    if (slot.instance == dead)
      continue;
    if (dlk_file_peer_alive(d, slot.instance))
      return true;
    dead = slot.instance;
  }
  return false;
}

bool dlk_file_left(struct dlk_file_dir *d, struct dlk_file_rest *r) {
  return memcmp(d->table.head.boot, d->boot, sizeof d->boot) != 0 &&
         !anybody(d, r);
}

bool dlk_file_key_remnant(struct dlk_file_dir *d) {
  struct dlk_file_rest r;
  return dlk_file_left(d, &r) && r.hold.until == 0 && !r.damaged;
}

/* ---- idle files ---- */

static bool still_at(struct dlk_file_dir *d, const char *name, int fd) {
  struct dlk_file_node node;
  return dlk_file_node_of(fd, &node) == 0 &&
         dlk_file_named(d, name, fd, &node, NULL);
}

static bool has_mode(int fd, mode_t mode) {
  struct stat st;
  return fstat(fd, &st) == 0 && (st.st_mode & 07777) == mode;
}

/* The key, with its prefix, whose file has this name: as the file says. */
static bool said_key(const char *name, int fd, char key[DLK_FILE_NAMED],
                     size_t *len) {
  long n = dlk_file_table_get_key(fd, key);
  if (n < 0)
    return false;
  *len = (size_t)n;
  return dlk_file_name_is(name, key, *len);
}

bool dlk_file_key_said(const char *name, int fd) {
  char key[DLK_FILE_NAMED];
  size_t len;
  return said_key(name, fd, key, &len);
}

/* Whether our own store holds it; a key with another prefix is none of ours. */
static bool is_ours(struct dlk_file_dir *d, const char *key, size_t len) {
  size_t n = d->prefix_len;
  return len >= n && memcmp(key, d->prefix, n) == 0 &&
         d->user->holds(d, key + n, len - n);
}

/* A damaged one, in which somebody may stand whom it does not show. */
static enum dlk_file_use damaged(struct dlk_file_dir *d, const char *key,
                                 size_t len) {
  return is_ours(d, key, len) ? DLK_FILE_USED : DLK_FILE_UNLESS_OTHERS;
}

/* error: what loading the table said. */
static enum dlk_file_use without_table(struct dlk_file_dir *d, const char *name,
                                       int fd, int error) {
  char key[DLK_FILE_NAMED];
  size_t len = 0;
  if (error == ENODATA && has_mode(fd, DLK_FILE_NEW))
    return DLK_FILE_IDLE;
  if (error != EUCLEAN && !(error == ENODATA && has_mode(fd, DLK_FILE_MADE)))
    return DLK_FILE_USED;
  if (!said_key(name, fd, key, &len) && !dlk_file_name_key(name, key, &len))
    return DLK_FILE_USED;
  return damaged(d, key, len);
}

enum dlk_file_use dlk_file_key_use(struct dlk_file_dir *d, const char *name,
                                   int fd) {
  static const int lists[] = {DLK_FILE_HELD, DLK_FILE_WAIT, DLK_FILE_WATCH};
  char key[DLK_FILE_NAMED];
  size_t len = 0;
  struct dlk_file_rest r;
  int error = dlk_file_table_load(&d->table, fd);
  if (error != 0)
    return without_table(d, name, fd, error);
  if (!said_key(name, fd, key, &len))
    return DLK_FILE_USED;
  bool used = d->table.torn;
  for (size_t i = 0; i < 3; i++)
    used = used || d->table.head.count[lists[i]] > 0;
  if (!used)
    return DLK_FILE_IDLE;
  if (!dlk_file_left(d, &r) || r.hold.until != 0)
    return DLK_FILE_USED;
  return r.damaged ? damaged(d, key, len) : DLK_FILE_IDLE;
}

void dlk_file_key_delete(struct dlk_file_dir *d, const char *name, int fd) {
  int error = dlk_file_table_load(&d->table, fd);
  if (error != 0 && error != ENODATA && error != EUCLEAN)
    return; /* it may have a table, whose fence is to be kept */
  int64_t fence = d->table.head.fence;
  if (dlk_file_meta_lock(d) != 0)
    return;
  if (still_at(d, name, fd) && dlk_file_fence_keep(d, fence) == 0)
    unlinkat(d->fd, name, 0);
  dlk_file_unlock(d->meta);
}

void dlk_file_key_delete_idle(struct dlk_file_dir *d, const char *name,
                              int fd) {
  enum dlk_file_use use = dlk_file_key_use(d, name, fd);
  if (use == DLK_FILE_IDLE ||
      (use == DLK_FILE_UNLESS_OTHERS && !dlk_file_peers_alive(d)))
    dlk_file_key_delete(d, name, fd);
}
