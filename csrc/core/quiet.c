/* The signal of a write goes to the thread that wrote, so it waits behind this
 * thread's mask until it is taken from there. One that was pending before is
 * the program's and stays; a second one is not counted by the kernel. */
#include "core/quiet.h"

#include <time.h>

static void only(sigset_t *set) {
  sigemptyset(set);
  sigaddset(set, SIGPIPE);
}

void dlk_quiet_begin(struct dlk_quiet *s) {
  sigset_t set;
  sigpending(&set);
  s->pending = sigismember(&set, SIGPIPE) == 1;
  only(&set);
  pthread_sigmask(SIG_BLOCK, &set, &s->old);
}

void dlk_quiet_end(const struct dlk_quiet *s, bool raised) {
  sigset_t set;
  struct timespec none = {0, 0};
  only(&set);
  if (raised && !s->pending)
    sigtimedwait(&set, NULL, &none);
  pthread_sigmask(SIG_SETMASK, &s->old, NULL);
}
