/* The directory of memory://, shared by all such stores of the process. The
 * last one to leave removes it. A forked child gets another one. */
#include "store/file/dir/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char path[64]; /* under the lock, as users; empty: none drawn */
static size_t users;

static void enter(void) {
  pthread_mutex_lock(&lock);
}

static void leave(void) {
  pthread_mutex_unlock(&lock);
}

static void in_child(void) {
  path[0] = '\0';
  users = 0;
  pthread_mutex_unlock(&lock);
}

static void watch_forks(void) {
  pthread_atfork(enter, leave, in_child);
}

static void draw(void) {
  uint64_t number = 0;
  bool shared = access("/dev/shm", W_OK | X_OK) == 0;
  if (getrandom(&number, sizeof number, GRND_NONBLOCK) !=
      (ssize_t)sizeof number)
    number = (uint64_t)(uintptr_t)&number;
  snprintf(path, sizeof path, "%s/dlock-memory-%ld-%016llx",
           shared ? "/dev/shm" : "/tmp", (long)getpid(),
           (unsigned long long)number);
}

char *dlk_file_temporary_enter(void) {
  pthread_once(&once, watch_forks);
  enter();
  if (path[0] == '\0')
    draw();
  char *copy = strdup(path);
  if (copy != NULL)
    users++;
  leave();
  return copy;
}

static void remove_all(void) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *list = fd < 0 ? NULL : fdopendir(fd);
  const struct dirent *one;
  while (list != NULL && (one = readdir(list)) != NULL)
    unlinkat(fd, one->d_name, 0);
  if (list != NULL)
    closedir(list);
  else if (fd >= 0)
    close(fd);
  rmdir(path);
}

void dlk_file_temporary_leave(void) {
  enter();
  if (users > 0 && --users == 0) {
    remove_all();
    path[0] = '\0';
  }
  leave();
}
