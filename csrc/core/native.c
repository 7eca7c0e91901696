/* A thread begins with the mask of the one that starts it, so that one blocks
 * everything for a moment; what comes meanwhile it gets right behind that.
 *
 * Room for threads is tried out, since nobody can ask for it: there are limits
 * of a user, of a container, of the machine and of the address space. All are
 * started before the first may end, so they are counted together. One that was
 * joined is counted by the kernel for a moment yet; when its id leads nowhere
 * it is not, and only then the others' places are free again. Between the
 * answer and its use somebody else may take them. */
#include "core/native.h"

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROOM_MAX 4
#define LOOKS 1000 /* at a thread that ends, with a ms between */

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

struct trial {
  pthread_t thread;
  pthread_mutex_t *gate;
  long id;
};

static void *stay(void *arg) {
  struct trial *t = arg;
  t->id = syscall(SYS_gettid);
  pthread_mutex_lock(t->gate);
  pthread_mutex_unlock(t->gate);
  return NULL;
}

static void end(const struct trial *t) {
  static const struct timespec ms = {.tv_nsec = 1000000};
  pthread_join(t->thread, NULL);
  for (int i = 0; i < LOOKS && syscall(SYS_tgkill, getpid(), t->id, 0) == 0;
       i++)
    nanosleep(&ms, NULL);
}

int dlk_native_room(size_t count) {
  pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  struct trial trials[ROOM_MAX];
  size_t started = 0;
  int error = 0;
  pthread_mutex_lock(&gate);
  while (error == 0 && started < count && started < ROOM_MAX) {
    struct trial *t = &trials[started];
    *t = (struct trial){.gate = &gate};
    error = dlk_native_start(&t->thread, 0, stay, t);
    started += error == 0;
  }
  pthread_mutex_unlock(&gate);
  for (size_t i = 0; i < started; i++)
    end(&trials[i]);
  return error;
}
