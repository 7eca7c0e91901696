/* The signal of a write stays pending behind the writing thread's mask until it
 * is taken. One that was pending before (so the thread had blocked it) is the
 * program's; the kernel counts no second one. */
#include "core/quiet.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static void both(sigset_t *set) {
  sigemptyset(set);
  sigaddset(set, SIGPIPE);
  sigaddset(set, SIGXFSZ);
}

void dlk_quiet_begin(struct dlk_quiet *q) {
  sigset_t set;
  both(&set);
  sigemptyset(&q->others);
  pthread_sigmask(SIG_BLOCK, &set, &q->old);
  if (sigismember(&q->old, SIGPIPE) == 1 || sigismember(&q->old, SIGXFSZ) == 1)
    sigpending(&q->others);
}

void dlk_quiet_end(const struct dlk_quiet *q, bool raised) {
  sigset_t set;
  struct timespec none = {0, 0};
  int problem = errno;
  both(&set);
  if (sigismember(&q->others, SIGPIPE) == 1)
    sigdelset(&set, SIGPIPE);
  if (sigismember(&q->others, SIGXFSZ) == 1)
    sigdelset(&set, SIGXFSZ);
  while (raised && sigtimedwait(&set, NULL, &none) > 0)
    ;
  pthread_sigmask(SIG_SETMASK, &q->old, NULL);
  errno = problem;
}

static bool raises(ssize_t done) {
  return done < 0 && (errno == EPIPE || errno == EFBIG);
}

ssize_t dlk_quiet_write(int fd, const void *data, size_t n) {
  struct dlk_quiet q;
  dlk_quiet_begin(&q);
  ssize_t done = write(fd, data, n);
  dlk_quiet_end(&q, raises(done));
  return done;
}

/* Whether RLIMIT_FSIZE is absent, by the last look. */
static atomic_bool unlimited;

void dlk_quiet_look(void) {
  struct rlimit most;
  unlimited =
      getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur == RLIM_INFINITY;
}

ssize_t dlk_quiet_pwrite(int fd, const void *data, size_t n, off_t at) {
  struct dlk_quiet q;
  if (atomic_load_explicit(&unlimited, memory_order_relaxed))
    return pwrite(fd, data, n, at);
  dlk_quiet_begin(&q);
  ssize_t done = pwrite(fd, data, n, at);
  dlk_quiet_end(&q, raises(done));
  return done;
}
