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
 * A hold of nobody (the rest of a min_hold, or the one after damage, damage.c)
 * has no pipe: its times alone say whether it stands, which it does while since
 * <= now < until. Under another boot id of the same machine that is so. After a
 * restart the clock has begun anew, so it is so only by chance; then the key is
 * kept for what seems to be left, which is less than until - since: the ttl or
 * min_hold that was asked for. The min_hold of a holder that died does not
 * count here: a crash of the machine leaves many of these, and jobs that begin
 * with the machine would find their own of last time. */
#include "store/file/dir/idle.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/file/dir/liveness.h"
#include "store/file/dir/meta.h"

/* Whether somebody who stands in the table lives, a hold of nobody stands, or
 * nobody can tell. It goes
 * by the slots and not by the lists: after a loss of power some of what was
 * written may be missing. */
static bool anybody(struct dlk_file_dir *d) {
  struct dlk_file_table *t = &d->table;
  int64_t now = d->host->now(d->host);
  uint64_t dead = 0; /* so is nobody */
  for (uint32_t i = 1; i <= t->head.slots; i++) {
    const struct dlk_file_slot *slot = dlk_file_table_at(t, i);
    if (t->error != 0)
      return true;
    if (slot->list == DLK_FILE_HELD && slot->instance == 0 &&
        slot->since <= now && now < slot->until)
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

bool dlk_file_key_said(const char *name, int fd) {
  char key[DLK_FILE_NAMED];
  long n = dlk_file_table_get_key(fd, key);
  return n >= 0 && dlk_file_name_is(name, key, (size_t)n);
}

static bool still_at(struct dlk_file_dir *d, const char *name, int fd) {
  struct dlk_file_node node;
  return dlk_file_node_of(fd, &node) == 0 &&
         dlk_file_named(d, name, fd, &node, NULL);
}

static bool is_new(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 && (st.st_mode & 07777) == DLK_FILE_NEW;
}

/* What is damaged stays until somebody asks for its key. */
static bool idle(struct dlk_file_dir *d, const char *name, int fd) {
  const uint32_t *count = d->table.head.count;
  int error = dlk_file_table_load(&d->table, fd);
  if (error != 0)
    return error == ENODATA && is_new(fd);
  if (d->table.torn || !dlk_file_key_said(name, fd))
    return false;
  bool empty = count[DLK_FILE_HELD] == 0 && count[DLK_FILE_WAIT] == 0 &&
               count[DLK_FILE_WATCH] == 0;
  return empty || dlk_file_key_remnant(d);
}

void dlk_file_key_delete_idle(struct dlk_file_dir *d, const char *name,
                              int fd) {
  if (!idle(d, name, fd) || dlk_file_meta_lock(d) != 0)
    return;
  if (still_at(d, name, fd) && dlk_file_fence_keep(d, d->table.head.fence) == 0)
    unlinkat(d->fd, name, 0);
  dlk_file_unlock(d->meta);
}
