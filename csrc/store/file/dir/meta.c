/* "~store", the directory's own file. It has
 *
 * - the fence floor: a key file's last fence is kept here at its deletion, and
 *   a later file starts above it. Without "~store" the floor is the clock:
 *   milliseconds since 1970 x 32. So fences stay below 10^14 until 2069, with
 *   up to 32 grants a millisecond. A later clock is not believed: it would use
 *   up all fences;
 * - the longest ttl asked for here, which bounds the belief in a lease that a
 *   damaged file does not show. A store writes what it remembers when "~store"
 *   was deleted;
 * - the time of the last sweep, or where the next one begins;
 * - the boot id that its stores see. */
#include "store/file/dir/meta.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/quiet.h"
#include "store/file/dir/process.h"

#define MAGIC UINT64_C(0x31306174656d6466) /* "fdmeta01" */
#define SWEEP_EVERY 60                     /* seconds */
#define TTL_UNKNOWN (60 * DLK_SEC)         /* twice the default */

struct meta {
  uint64_t magic;
  int64_t floor, swept, cursor, ttl;
  uint8_t boot[16];
  uint64_t check;
};

static uint64_t sum_of(const struct meta *m) {
  uint64_t words[offsetof(struct meta, check) / 8], sum = MAGIC;
  memcpy(words, m, sizeof words);
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    sum = (sum ^ sum >> 29 ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
  return sum;
}

/* Above all fences so far, unless the clock stepped back. 0: the clock cannot
 * be right. */
static int64_t fence_seed(void) {
  struct timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  if (ts.tv_sec >= DLK_FILE_FENCES / 32000)
    return 0;
  return (int64_t)ts.tv_sec * 32000 + ts.tv_nsec / (1000000 / 32);
}

static int64_t longer(int64_t a, int64_t b) {
  return a > b ? a : b;
}

void dlk_file_meta_close(struct dlk_file_dir *d) {
  dlk_file_fd_close(d->meta);
  d->meta = -1;
}

/* Without the mutex half of a write may be seen, so it is read again. A file
 * that was good while open stays ours. */
static int read_meta(struct dlk_file_dir *d, struct meta *m) {
  static const struct meta nothing;
  struct stat st;
  *m = nothing;
  for (int i = 0; i < 3; i++) {
    if (pread(d->meta, m, sizeof *m, 0) < 0)
      return errno;
    if (m->magic == MAGIC && m->check == sum_of(m)) {
      d->meta_good = true;
      d->longest = longer(m->ttl, d->longest);
      return 0;
    }
  }
  if (fstat(d->meta, &st) != 0)
    return errno;
  bool blank =
      memcmp(m, &nothing, sizeof *m) == 0 && dlk_file_marked(st.st_mode);
  if (!blank && !d->meta_good && m->magic != MAGIC)
    return EBADMSG;
  *m = (struct meta){.magic = MAGIC, .floor = fence_seed()};
  memcpy(m->boot, d->boot, sizeof m->boot);
  return 0;
}

/* Opens "~store", again if its name leads elsewhere. EBADMSG: not ours. */
static int open_meta(struct dlk_file_dir *d) {
  struct meta m;
  if (d->meta >= 0 && dlk_file_named(d, "~store", d->meta, NULL))
    return 0;
  dlk_file_meta_close(d);
  int fd = dlk_file_own_open(d, "~store", DLK_FILE_MADE, false);
  if (fd < 0)
    return fd == -EPROTO ? EBADMSG : -fd;
  d->meta = fd;
  d->meta_good = false;
  d->ttl = 0;
  int error = read_meta(d, &m);
  if (error != 0)
    dlk_file_meta_close(d);
  return error;
}

int dlk_file_meta_lock(struct dlk_file_dir *d) {
  int error = open_meta(d);
  return error == 0 ? dlk_file_lock(d->meta) : error;
}

int dlk_file_meta_try_lock(struct dlk_file_dir *d) {
  int error = open_meta(d);
  return error == 0 ? dlk_file_try_lock(d->meta) : error;
}

static int write_meta(struct dlk_file_dir *d, struct meta *m) {
  m->check = sum_of(m);
  ssize_t n = dlk_quiet_pwrite(d->meta, m, sizeof *m, 0);
  return n == (ssize_t)sizeof *m ? 0 : n < 0 ? errno : EIO;
}

int dlk_file_boot_keep(struct dlk_file_dir *d,
                       bool (*others)(struct dlk_file_dir *d)) {
  struct meta m;
  int error = read_meta(d, &m);
  if (error != 0 || memcmp(m.boot, d->boot, sizeof m.boot) == 0)
    return error;
  if (others(d))
    return EXDEV;
  memcpy(m.boot, d->boot, sizeof m.boot);
  return write_meta(d, &m);
}

int dlk_file_fence_floor(struct dlk_file_dir *d, int64_t *floor) {
  struct meta m;
  int64_t seed = fence_seed();
  int error = open_meta(d);
  if (error == 0)
    error = read_meta(d, &m);
  if (error == 0)
    *floor = m.floor > seed ? m.floor : seed;
  return error;
}

int dlk_file_fence_keep(struct dlk_file_dir *d, int64_t fence) {
  struct meta m;
  int error = read_meta(d, &m);
  if (error != 0 || m.floor >= fence)
    return error;
  m.floor = fence;
  return write_meta(d, &m);
}

int dlk_file_ttl_keep(struct dlk_file_dir *d, int64_t ttl) {
  struct meta m;
  if (ttl <= d->ttl)
    return 0;
  int error = dlk_file_meta_lock(d);
  if (error != 0)
    return error;
  error = read_meta(d, &m);
  ttl = longer(ttl, d->longest);
  if (error == 0 && m.ttl < ttl) {
    m.ttl = ttl;
    error = write_meta(d, &m);
  }
  dlk_file_unlock(d->meta);
  if (error == 0)
    d->ttl = d->longest = m.ttl;
  return error;
}

int dlk_file_ttl_longest(struct dlk_file_dir *d, int64_t *ttl) {
  struct meta m;
  int error = open_meta(d);
  if (error == 0)
    error = read_meta(d, &m);
  if (error == 0)
    *ttl = longer(d->longest, m.ttl > 0 ? m.ttl : TTL_UNKNOWN);
  return error;
}

static int64_t wall_seconds(void) {
  struct timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  return ts.tv_sec;
}

bool dlk_file_sweep_due(struct dlk_file_dir *d, int64_t *from) {
  struct meta m;
  int64_t now = wall_seconds();
  if (read_meta(d, &m) != 0 || (m.swept <= now && now - m.swept < SWEEP_EVERY))
    return false;
  *from = m.cursor;
  m.swept = now;
  return write_meta(d, &m) == 0;
}

void dlk_file_sweep_keep(struct dlk_file_dir *d, int64_t at) {
  struct meta m;
  if (read_meta(d, &m) != 0)
    return;
  m.cursor = at;
  m.swept = at == 0 ? wall_seconds() : 0;
  write_meta(d, &m);
}
