/* Finds what killed processes left behind: their pipes, and files of keys
 * that nobody uses. One store of all that use the directory sweeps, once a
 * minute at most, when it connects or has made many files. It goes in small
 * steps and in portions, of which the next one is taken by whoever connects
 * next, so nobody waits for it, not even a store that closes. What it does to
 * each file is what anybody may do at any time (key.c, liveness.c), so it can
 * be cut short anywhere. */
#include "store/file/recipe/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "store/file/dir/descriptors.h"
#include "store/file/dir/key.h"
#include "store/file/dir/liveness.h"
#include "store/file/dir/meta.h"
#include "store/file/recipe/queue.h"

#define STEP 32
#define PORTION 1024

/* Says where the next one goes on. */
static void end(struct dlk_file_store *s, bool all) {
  int64_t at = all ? 0 : telldir(s->sweep);
  if (dlk_file_meta_try_lock(&s->dir) == 0) {
    dlk_file_sweep_keep(&s->dir, at);
    dlk_file_unlock(s->dir.meta);
  }
  dlk_file_sweep_stop(s);
}

/* Dead holders and waiters of the file leave with it: settle looks at all
 * holders, and grant drops dead waiters from the head on. A copy of a file
 * under another name is nobody's lock: it stays as it is. */
static void drop_dead(struct dlk_file_dir *d, const char *name, int fd) {
  d->holders_changed = false;
  if (dlk_file_table_load(&d->table, fd) != 0 || d->table.torn ||
      !dlk_file_key_said(name, fd) || dlk_file_key_remnant(d))
    return;
  dlk_file_settle(d);
  dlk_file_tell(d);
  dlk_file_table_commit(&d->table);
}

static void sweep_key(struct dlk_file_dir *d, const char *name) {
  int fd = dlk_file_key_open(d, name, false);
  if (fd < 0)
    return;
  if (dlk_file_try_lock(fd) == 0) {
    drop_dead(d, name, fd);
    dlk_file_key_delete_idle(d, name, fd);
    dlk_file_unlock(fd);
  }
  dlk_file_fd_close(fd);
}

static void step(struct dlk_timer *timer, int64_t now) {
  struct dlk_file_store *s =
      DLK_CONTAINER(timer, struct dlk_file_store, sweep_timer);
  const struct dirent *d = NULL;
  bool more = true;
  for (int i = 0; i < STEP && more; i++) {
    d = readdir(s->sweep);
    more = d != NULL && s->sweep_names-- != 0;
    if (!more || d->d_name[0] == '.')
      continue;
    if (d->d_name[0] != '~' || d->d_name[1] == 'h')
      sweep_key(&s->dir, d->d_name);
    else if (d->d_name[1] == 'w')
      dlk_file_peer_bury(&s->dir, d->d_name);
  }
  if (more)
    s->dir.host->timer_set(s->dir.host, &s->sweep_timer, now);
  else
    end(s, d == NULL);
}

void dlk_file_sweep_start(struct dlk_file_store *s, int64_t from) {
  if (s->sweep != NULL)
    return;
  s->sweep = dlk_file_dir_list(&s->dir);
  if (s->sweep == NULL)
    return;
  if (from != 0)
    seekdir(s->sweep, (long)from);
  s->sweep_names = PORTION;
  s->dir.host->busy(s->dir.host, 1);
  s->sweep_timer.fire = step;
  s->dir.host->timer_set(s->dir.host, &s->sweep_timer,
                         s->dir.host->now(s->dir.host));
}

void dlk_file_sweep_stop(struct dlk_file_store *s) {
  if (s->sweep == NULL)
    return;
  s->dir.host->timer_clear(s->dir.host, &s->sweep_timer);
  closedir(s->sweep);
  s->sweep = NULL;
  s->dir.host->busy(s->dir.host, -1);
}
