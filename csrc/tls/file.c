/* OpenSSL's own reading opens files without CLOEXEC and may block on a pipe. */
#include "tls/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LARGEST ((off_t)4 << 20) /* the system's list of CAs has 200 KB */

void dlk_tls_fault_set(struct dlk_tls_fault *fault, enum dlk_code code,
                       const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  fault->code = code;
  vsnprintf(fault->text, sizeof fault->text, fmt, ap);
  va_end(ap);
}

struct dlk_tls_stamp dlk_tls_file_stamp(const char *path) {
  struct stat st;
  struct dlk_tls_stamp stamp = {0};
  if (!path || stat(path, &st) != 0)
    return stamp;
  stamp.dev = st.st_dev;
  stamp.ino = st.st_ino;
  stamp.size = st.st_size;
  stamp.changed =
      (int64_t)st.st_ctim.tv_sec * 1000000000 + (int64_t)st.st_ctim.tv_nsec;
  return stamp;
}

bool dlk_tls_file_same(const struct dlk_tls_stamp *a,
                       const struct dlk_tls_stamp *b) {
  return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
         a->changed == b->changed;
}

/* problem: an errno, or 0 with why. A lack of descriptors or memory passes. */
static bool fail(struct dlk_tls_fault *fault, const char *option,
                 const char *path, int problem, const char *why) {
  char reason[DLK_REASON_MAX];
  bool passes = problem == EMFILE || problem == ENFILE || problem == ENOMEM;
  dlk_tls_fault_set(fault, passes ? DLK_UNAVAILABLE : DLK_INVALID,
                    "%s %.80s cannot be read (%s)", option, path,
                    problem ? dlk_reason(reason, problem) : why);
  return false;
}

/* 0, an errno, or -1 and *why. */
static int read_all(int fd, struct dlk_buf *out, const char **why) {
  struct stat st;
  if (fstat(fd, &st) != 0)
    return errno;
  *why = "it is not a file";
  if (!S_ISREG(st.st_mode))
    return -1;
  *why = "it is too large";
  /* At once: a grow could leave a secret behind. */
  if (st.st_size <= LARGEST && !dlk_buf_reserve(out, (size_t)st.st_size + 4096))
    return ENOMEM;
  while (st.st_size <= LARGEST && out->len <= (size_t)LARGEST) {
    char *to = dlk_buf_reserve(out, 4096);
    if (!to)
      return ENOMEM;
    ssize_t n = read(fd, to, 4095);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return errno;
    to[n] = '\0';
    if (n == 0)
      return 0;
    out->len += (size_t)n;
  }
  return -1;
}

bool dlk_tls_file_read(const char *option, const char *path,
                       struct dlk_buf *out, struct dlk_tls_fault *fault) {
  const char *why = NULL;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return fail(fault, option, path, errno, why);
  int problem = read_all(fd, out, &why);
  close(fd);
  if (problem == 0)
    return true;
  dlk_buf_wipe(out);
  return fail(fault, option, path, problem > 0 ? problem : 0, why);
}

/* Moves *list behind the next path. False: there is none. *problem: 0, or
 * ENAMETOOLONG. */
static bool next_of(const char **list, char path[PATH_MAX], int *problem) {
  const char *from = *list + strspn(*list, ":");
  size_t len = strcspn(from, ":");
  *list = from + len;
  *problem = len < PATH_MAX ? 0 : ENAMETOOLONG;
  size_t fits = len < PATH_MAX ? len : PATH_MAX - 1;
  memcpy(path, from, fits);
  path[fits] = '\0';
  return len > 0;
}

bool dlk_tls_file_directories(const char *option, const char *list,
                              struct dlk_tls_fault *fault) {
  char path[PATH_MAX];
  int problem;
  while (next_of(&list, path, &problem)) {
    struct stat st;
    if (problem == 0 && stat(path, &st) != 0)
      problem = errno;
    if (problem != 0)
      return fail(fault, option, path, problem, NULL);
    if (!S_ISDIR(st.st_mode))
      return fail(fault, option, path, 0, "it is no directory");
  }
  return true;
}

struct dlk_tls_stamp dlk_tls_file_stamp_all(const char *list) {
  struct dlk_tls_stamp all = {0};
  char path[PATH_MAX];
  int problem;
  while (list && next_of(&list, path, &problem)) {
    struct dlk_tls_stamp one = dlk_tls_file_stamp(path);
    all.dev = all.dev * 31 + one.dev;
    all.ino = all.ino * 31 + one.ino;
    all.size += one.size;
    all.changed = (int64_t)((uint64_t)all.changed * 31 + (uint64_t)one.changed);
  }
  return all;
}
