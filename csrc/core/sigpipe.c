/* The signal of a write goes to the thread that wrote, so it waits behind this
 * thread's mask until it is taken from there. One that was pending before is
 * the program's and stays; a second one is not counted by the kernel. */
#include "core/sigpipe.h"

#include <time.h>

static void only(sigset_t *set) {
  sigemptyset(set);
  sigaddset(set, SIGPIPE);
}

void dlk_sigpipe_block(struct dlk_sigpipe *s) {
  sigset_t set;
  sigpending(&set);
  s->pending = sigismember(&set, SIGPIPE) == 1;
  only(&set);
  pthread_sigmask(SIG_BLOCK, &set, &s->old);
}

void dlk_sigpipe_restore(const struct dlk_sigpipe *s, bool raised) {
  sigset_t set;
  struct timespec none = {0, 0};
  only(&set);
  if (raised && !s->pending)
    sigtimedwait(&set, NULL, &none);
  pthread_sigmask(SIG_SETMASK, &s->old, NULL);
}
