/* Deletes what killed processes left: pipes, and files of unused keys. One
 * store of the directory sweeps, once a minute at most, when it connects or has
 * made many files. It goes in small steps and in portions, of which the next
 * store to connect takes the next one. What it does to a file any store may do
 * at any time, so it can be cut short. */
#include "store/file/recipe/store.h"

#include "store/file/dir/liveness.h"
#include "store/file/dir/meta.h"
#include "store/file/dir/process.h"
#include "store/file/recipe/queue.h"

#define STEP 32
#define PORTION 1024

/* Keeps where the next portion begins. */
static void end(struct dlk_file_store *s, bool all) {
  int64_t at = all ? 0 : telldir(s->sweep);
  if (dlk_file_meta_try_lock(&s->dir) == 0) {
    dlk_file_sweep_keep(&s->dir, at);
    dlk_file_unlock(s->dir.meta);
  }
  dlk_file_sweep_stop(s);
}

/* Settle drops dead holders and the dead waiters at the head. A copy under
 * another name is no lock: it stays. */
static void sweep_key(struct dlk_file_dir *d, const char *name) {
  int fd = dlk_file_key_open(d, name, false);
  if (fd < 0)
    return;
  if (dlk_file_try_lock(fd) == 0) {
    d->holders_changed = false;
    if (dlk_file_table_load(&d->table, fd) == 0 && !d->table.torn &&
        dlk_file_key_said(name, fd) && !dlk_file_remnant(d)) {
      dlk_file_settle(d);
      dlk_file_tell(d);
      dlk_file_table_commit(&d->table);
    }
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
