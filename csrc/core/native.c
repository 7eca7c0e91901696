/* A thread inherits the mask of its starter, which therefore blocks all signals
 * meanwhile.
 *
 * No call tells how many threads the limits (user, container, machine, address
 * space) still allow, so room is tried, by threads that live at once. The
 * kernel counts a joined thread until its id leads nowhere. */
#include "core/native.h"

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROOM_MAX 4
#define LOOKS 1000 /* at an ending thread, 1 ms apart */

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

int dlk_native_room(size_t count) {
  static const struct timespec ms = {.tv_nsec = 1000000};
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
  for (size_t i = 0; i < started; i++) {
    pthread_join(trials[i].thread, NULL);
    for (int look = 0;
         look < LOOKS && syscall(SYS_tgkill, getpid(), trials[i].id, 0) == 0;
         look++)
      nanosleep(&ms, NULL);
  }
  return error;
}
