/* Finds what killed processes left behind: their pipes, and files of keys
 * that nobody uses. One store of all that use the directory sweeps, once a
 * minute at most, when it connects or has made many files. It goes in small
 * steps and in portions, of which the next one is taken by whoever connects
 * next, so nobody waits for it, not even a store that closes. What it does to
 * each file is what anybody may do at any time (key.c, peer.c), so it can be
 * cut short anywhere. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "store/file/internal.h"

#define STEP 32
#define PORTION 1024

/* Says where the next one goes on. */
static void end(struct dlk_file_store *s, bool all) {
  int64_t at = all ? 0 : telldir(s->sweep);
  if (dlk_file_meta_open(s) == 0 && dlk_file_try_lock(s->meta) == 0) {
    dlk_file_sweep_keep(s, at);
    dlk_file_unlock(s->meta);
  }
  dlk_file_sweep_stop(s);
}

static void step(struct dlk_timer *timer, int64_t now) {
  struct dlk_file_store *s =
      DLK_CONTAINER(timer, struct dlk_file_store, sweep_timer);
  for (int i = 0; i < STEP; i++) {
    const struct dirent *d = readdir(s->sweep);
    if (d == NULL || s->sweep_names-- == 0) {
      end(s, d == NULL);
      return;
    }
    if (d->d_name[0] == '.')
      continue;
    if (d->d_name[0] != '~' || d->d_name[1] == 'h')
      dlk_file_key_sweep(s, d->d_name);
    else if (d->d_name[1] == 'w')
      dlk_file_peer_bury(s, d->d_name);
  }
  s->host->timer_set(s->host, &s->sweep_timer, now);
}

void dlk_file_sweep_start(struct dlk_file_store *s, int64_t from) {
  if (s->sweep != NULL)
    return;
  s->sweep = dlk_file_dir_list(s);
  if (s->sweep == NULL)
    return;
  if (from != 0)
    seekdir(s->sweep, (long)from);
  s->sweep_names = PORTION;
  s->host->busy(s->host, 1);
  s->sweep_timer.fire = step;
  s->host->timer_set(s->host, &s->sweep_timer, s->host->now(s->host));
}

void dlk_file_sweep_stop(struct dlk_file_store *s) {
  if (s->sweep == NULL)
    return;
  s->host->timer_clear(s->host, &s->sweep_timer);
  closedir(s->sweep);
  s->sweep = NULL;
  s->host->busy(s->host, -1);
}
