/* The lock directory, and how our files are told.
 *
 * D1  The directory is the caller's own and writable by nobody else, checked on
 *     the open descriptor. Network file systems are refused: they do not show
 *     other hosts' locks or deaths.
 * D2  Nothing is opened, changed or deleted that is not ours: a plain file of
 *     our user, closed to others, with our magic. A file of zeros is known by
 *     the sticky bit; before its first table it is executable besides. A file
 *     whose magic we saw while it was open stays ours.
 * D3  A key's file has one name. With a second one, as in a linked copy of the
 *     directory, stores that do not find our pipes take us for dead. "~store"
 *     may have several: the shared floor and ttl are high enough for all.
 * D4  An open file counts only while its name leads to it (dlk_file_named). A
 *     lock in any other file excludes nobody. */
#include "store/file/dir/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/quiet.h"
#include "store/file/dir/process.h"

#define SPINS 40
#define TRIES 8
#define FUSE 0x65735546
#define BOOT_ID "/proc/sys/kernel/random/boot_id"

static const struct {
  unsigned long magic;
  const char *name;
} network[] = {
    {0x6969, "NFS"},          {0x517b, "SMB"},        {0xff534d42, "CIFS"},
    {0xfe534d42, "SMB"},      {FUSE, "FUSE"},         {0x01021997, "9p"},
    {0x5346414f, "AFS"},      {0x6b414653, "AFS"},    {0x73757245, "Coda"},
    {0x00c36400, "Ceph"},     {0x01161970, "GFS2"},   {0x7461636f, "OCFS2"},
    {0x0bd00bd0, "Lustre"},   {0x564c, "NCP"},        {0x786f4256, "vboxsf"},
    {0x19830326, "BeeGFS"},   {0x47504653, "GPFS"},   {0xaad7aaea, "PanFS"},
    {0x20030528, "OrangeFS"}, {0xbacbacbc, "vmhgfs"}, {0x7c7c6673, "prl_fs"},
    {0xbeefdead, "SNFS"},     {0x61636673, "ACFS"},
};

bool dlk_file_dir_init(struct dlk_file_dir *d, struct dlk_host *host,
                       const struct dlk_conf *conf, uint32_t seed) {
  d->host = host;
  d->temporary = strcmp(conf->scheme, "memory") == 0;
  /* A slash at the end would follow a link. */
  size_t n = strlen(conf->path);
  while (n > 1 && conf->path[n - 1] == '/')
    n--;
  d->path = strndup(conf->path, n);
  d->prefix = strdup(conf->prefix);
  if (d->path == NULL || d->prefix == NULL) {
    free(d->path);
    free(d->prefix);
    return false;
  }
  d->prefix_len = strlen(d->prefix);
  d->fd = d->meta = d->wake = -1;
  dlk_list_init(&d->recent);
  dlk_list_init(&d->idle);
  dlk_map_init(&d->keys, seed);
  dlk_map_init(&d->peers, seed);
  return true;
}

void dlk_file_dir_free(struct dlk_file_dir *d) {
  dlk_map_clear(&d->keys);
  dlk_map_clear(&d->peers);
  free(d->path);
  free(d->prefix);
}

/* 0, or an errno. No parent is made: a mistyped path must be no lock of its
 * own. */
static int make(const char *path) {
  if (mkdir(path, 0700) != 0)
    return errno == EEXIST ? 0 : errno;
  return fchmodat(AT_FDCWD, path, 0700, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
}

static enum dlk_code open_error(struct dlk_file_dir *d, int error,
                                struct dlk_error *err) {
  char why[DLK_REASON_MAX];
  struct stat st;
  enum dlk_code code = dlk_errno_code(error);
  const char *advice = "";
  if (code == DLK_DENIED)
    advice = "; use a directory of your own, mode 0700";
  else if (error == ENOENT)
    advice = "; its parent has to be there, so make that or correct the path";
  else if (code == DLK_INVALID)
    advice = "; name another directory";
  if ((error == ENOTDIR || error == ELOOP) && lstat(d->path, &st) == 0 &&
      S_ISLNK(st.st_mode))
    return dlk_error_set(err, DLK_DENIED,
                         "%s is a symbolic link; name the directory itself",
                         d->path);
  return dlk_error_set(err, code,
                       "cannot make or open the lock directory %s: %s%s",
                       d->path, dlk_reason(why, error), advice);
}

static enum dlk_code check_kind(struct dlk_file_dir *d, int fd,
                                struct dlk_error *err) {
  struct statfs fs;
  if (fstatfs(fd, &fs) != 0)
    return open_error(d, errno, err);
  d->read_only = (fs.f_flags & ST_RDONLY) != 0;
  for (size_t i = 0; i < sizeof network / sizeof network[0]; i++)
    if (((unsigned long)fs.f_type & 0xffffffffu) == network[i].magic)
      return dlk_error_set(
          err, DLK_UNSUPPORTED,
          "%s is on %s%s, where locks %s; use a directory on ext4, xfs, btrfs "
          "or tmpfs, or redis:// or zookeeper:// to lock across hosts",
          d->path, fs.f_type == FUSE ? "" : "a network file system, ",
          network[i].name,
          fs.f_type == FUSE ? "are not the kernel's"
                            : "do not see other hosts");
  return DLK_OK;
}

static enum dlk_code check_owner(struct dlk_file_dir *d, int fd,
                                 struct dlk_error *err) {
  struct stat st;
  if (fstat(fd, &st) != 0)
    return open_error(d, errno, err);
  d->owner = st.st_uid;
  if (st.st_uid != geteuid())
    return dlk_error_set(err, DLK_DENIED,
                         "%s belongs to user %ld, we are %ld; name a directory "
                         "of your own (in $DLOCK_URL: file:///directory)",
                         d->path, (long)st.st_uid, (long)geteuid());
  if ((st.st_mode & 022) != 0)
    return dlk_error_set(err, DLK_DENIED,
                         "%s has mode %04o, others can write to it; %s",
                         d->path, (unsigned)(st.st_mode & 07777),
                         (st.st_mode & S_ISVTX) != 0
                             ? "use a directory of your own in it"
                             : "run chmod 0700 on it or use another directory");
  return DLK_OK;
}

/* The text is 32 digits with dashes between. */
static enum dlk_code check_boot(struct dlk_file_dir *d, struct dlk_error *err) {
  char text[64] = {0};
  int fd = open(BOOT_ID, O_RDONLY | O_CLOEXEC);
  int error = fd < 0 || read(fd, text, sizeof text - 1) < 0 ? errno : 0;
  if (fd >= 0)
    close(fd);
  const char *at = text;
  for (int i = 0; i < 16 && error == 0; i++, at += 2) {
    at += *at == '-';
    if (sscanf(at, "%2hhx", &d->boot[i]) != 1)
      error = ENODATA;
  }
  if (error == 0)
    return DLK_OK;
  if (error == EMFILE || error == ENFILE)
    return open_error(d, error, err);
  enum dlk_code code =
      error == ENOENT ? DLK_UNAVAILABLE : dlk_errno_code(error);
  return dlk_error_set(err, code,
                       "cannot read " BOOT_ID " (%s), which tells locks of "
                       "before a restart of the machine from those of now; "
                       "mount /proc whole (systemd: without ProcSubset=pid)",
                       strerror(error));
}

static enum dlk_code open_dir(struct dlk_file_dir *d, struct dlk_error *err) {
  int flags = O_RDONLY | O_DIRECTORY;
  int fd = dlk_file_fd_open(AT_FDCWD, d->path, flags, 0);
  dlk_quiet_look();
  if (fd == -ENOENT) {
    fd = -make(d->path);
    if (fd == 0)
      fd = dlk_file_fd_open(AT_FDCWD, d->path, flags, 0);
  }
  if (fd < 0)
    return open_error(d, -fd, err);
  enum dlk_code code = check_owner(d, fd, err);
  if (code == DLK_OK)
    code = check_kind(d, fd, err);
  if (code == DLK_OK)
    code = check_boot(d, err);
  if (code != DLK_OK) {
    dlk_file_fd_close(fd);
    return code;
  }
  d->fd = fd;
  return DLK_OK;
}

enum dlk_code dlk_file_dir_open(struct dlk_file_dir *d, struct dlk_error *err) {
  if (!d->temporary)
    return open_dir(d, err);
  char *path = dlk_file_temporary_enter();
  if (path == NULL)
    return dlk_error_set(err, DLK_UNAVAILABLE, "out of memory");
  free(d->path);
  d->path = path;
  enum dlk_code code = open_dir(d, err);
  if (code != DLK_OK)
    dlk_file_temporary_leave();
  return code;
}

bool dlk_file_dir_lost(const struct dlk_file_dir *d) {
  struct stat here, there;
  return fstat(d->fd, &here) != 0 || lstat(d->path, &there) != 0 ||
         !dlk_file_same(&here, &there);
}

DIR *dlk_file_dir_list(const struct dlk_file_dir *d) {
  int fd = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = fd < 0 ? NULL : fdopendir(fd);
  if (list == NULL && fd >= 0)
    close(fd);
  return list;
}

/* A descriptor for reading takes a shared lock. */
static int set_lock(int fd, short type) {
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_len = 1};
  while (fcntl(fd, F_OFD_SETLK, &lock) != 0) {
    if (errno == EACCES)
      return EAGAIN;
    if (errno == EBADF && lock.l_type == F_WRLCK)
      lock.l_type = F_RDLCK;
    else if (errno != EINTR)
      return errno;
  }
  return 0;
}

int dlk_file_try_lock(int fd) {
  return set_lock(fd, F_WRLCK);
}

/* The mutex is held for microseconds: a few tries are cheaper than a timer, and
 * sched_yield lets a preempted holder go on. */
int dlk_file_lock(int fd) {
  int error = EAGAIN;
  for (int i = 0; i < SPINS && error == EAGAIN; i++) {
    if (i > 3)
      sched_yield();
    error = set_lock(fd, F_WRLCK);
  }
  return error;
}

void dlk_file_unlock(int fd) {
  set_lock(fd, F_UNLCK);
}

bool dlk_file_marked(mode_t mode) {
  return (mode & 07777) == DLK_FILE_NEW || (mode & 07777) == DLK_FILE_MADE;
}

static int make_own(struct dlk_file_dir *d, const char *name, int flags,
                    mode_t mode) {
  struct stat st;
  int fd = dlk_file_fd_open(d->fd, name, flags | O_CREAT | O_EXCL, mode);
  if (fd < 0)
    return fd;
  if (fstat(fd, &st) == 0 &&
      ((st.st_mode & 07777) == mode || fchmod(fd, mode) == 0))
    return fd;
  int error = errno;
  dlk_file_fd_close(fd);
  return -error;
}

int dlk_file_own_open(struct dlk_file_dir *d, const char *name, mode_t mode,
                      bool alone) {
  const int flags = (d->read_only ? O_RDONLY : O_RDWR) | O_NONBLOCK | O_NOATIME;
  int fd = -EAGAIN;
  for (int i = 0; i < TRIES && fd == -EAGAIN; i++) {
    struct stat st;
    if (fstatat(d->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
      if (!S_ISREG(st.st_mode) || (alone && st.st_nlink > 1) ||
          st.st_uid != d->owner || (st.st_mode & 077) != 0)
        return -EPROTO;
      fd = dlk_file_fd_open(d->fd, name, flags, 0);
    } else if (errno != ENOENT || mode == 0) {
      return -errno;
    } else {
      fd = make_own(d, name, flags, mode);
    }
    /* It was made or deleted meanwhile. */
    if (fd == -EEXIST || (fd == -ENOENT && mode != 0 && i + 1 < TRIES))
      fd = -EAGAIN;
  }
  return fd;
}

bool dlk_file_same(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* After a change of user we may not look; then only deletion counts. */
bool dlk_file_named(const struct dlk_file_dir *d, const char *name, int fd,
                    struct stat *file) {
  struct stat there, st;
  if (fstat(fd, &st) != 0)
    return false;
  if (fstatat(d->fd, name, &there, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT || st.st_nlink == 0)
      return false;
  } else if (!dlk_file_same(&there, &st)) {
    return false;
  }
  if (file != NULL)
    *file = st;
  return true;
}
