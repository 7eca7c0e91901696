/* A thread begins with the mask of the one that starts it, so that one blocks
 * everything for a moment; what comes meanwhile it gets right behind that. */
#include "core/native.h"

#include <signal.h>

int dlk_native_start(pthread_t *thread, size_t stack, void *(*run)(void *arg),
                     void *arg) {
  pthread_t unjoined;
  pthread_attr_t attr;
  sigset_t all, old;
  int error = pthread_attr_init(&attr);
  if (error != 0)
    return error;
  if (stack > 0)
    pthread_attr_setstacksize(&attr, stack);
  if (!thread)
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  error = pthread_create(thread ? thread : &unjoined, &attr, run, arg);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  pthread_attr_destroy(&attr);
  return error;
}
