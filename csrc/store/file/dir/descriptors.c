/* Descriptors and fork().
 *
 * A forked child shares its parent's pipes and description locks, and would
 * keep them when the parent is killed; close-on-exec does not help if it never
 * calls exec. So a fork handler closes every descriptor registered here in the
 * child before fork() returns. The parent loses nothing: both live as long as
 * their last descriptor. vfork and posix_spawn lead to exec; docs/file.md
 * states the gap.
 *
 * The child must not touch the old store, for its numbers are free for
 * others. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/file/dir/process.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int *fds; /* under mutex */
static size_t count, room;
static bool handled;

/* Taken across fork(), so the child sees a whole list. */
static void before(void) {
  pthread_mutex_lock(&mutex);
}

static void after_parent(void) {
  pthread_mutex_unlock(&mutex);
}

static void after_child(void) {
  for (size_t i = 0; i < count; i++)
    close(fds[i]);
  count = 0;
  pthread_mutex_unlock(&mutex);
}

static void install(void) {
  handled = pthread_atfork(before, after_parent, after_child) == 0;
}

/* No fork may come between open and register. */
int dlk_file_fd_open(int dir, const char *name, int flags, mode_t mode) {
  pthread_once(&once, install);
  pthread_mutex_lock(&mutex);
  int result = -ENOMEM;
  if (count == room) {
    size_t more = room == 0 ? 64 : room * 2;
    int *grown = realloc(fds, more * sizeof *fds);
    if (grown != NULL) {
      fds = grown;
      room = more;
    }
  }
  if (handled && count < room) {
    int fd = openat(dir, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, mode);
    result = fd < 0 ? -errno : fd;
    if (fd >= 0)
      fds[count++] = fd;
  }
  pthread_mutex_unlock(&mutex);
  return result;
}

/* No fork may come between close and unregister: the child would close
 * another's number. */
void dlk_file_fd_close(int fd) {
  if (fd < 0)
    return;
  pthread_mutex_lock(&mutex);
  for (size_t i = count; i > 0; i--)
    if (fds[i - 1] == fd) {
      fds[i - 1] = fds[--count];
      close(fd);
      break;
    }
  pthread_mutex_unlock(&mutex);
}
