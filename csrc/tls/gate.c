/* A read-write lock: calls into OpenSSL are its readers.
 *
 * Exit. OpenSSL frees what it has when the process exits, while our renewal
 * thread goes on until the very end. Our handler was registered after
 * OpenSSL's, so it runs before it; from then on nobody gets in, and the
 * handler waits for who is inside. Who is inside computes and does not wait,
 * so this takes as long as a signature at most; a second is the bound.
 *
 * Fork. OpenSSL's own locks must not be held by a thread that the child does
 * not have, so a fork waits in the same way. (The child's lock is made anew:
 * it was taken by a thread with another id.) */
#include "tls/gate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

static pthread_rwlock_t lock;
static atomic_bool shut;

static bool make_lock(void) {
  pthread_rwlockattr_t kind;
  if (pthread_rwlockattr_init(&kind) != 0)
    return false;
#ifdef __GLIBC__ /* elsewhere readers may keep an exit waiting, for a second   \
                  */
  (void)pthread_rwlockattr_setkind_np(
      &kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
#endif
  bool made = pthread_rwlock_init(&lock, &kind) == 0;
  (void)pthread_rwlockattr_destroy(&kind);
  return made;
}

static void before_fork(void) {
  (void)pthread_rwlock_wrlock(&lock);
}

static void after_fork(void) {
  (void)pthread_rwlock_unlock(&lock);
}

static void in_child(void) {
  (void)make_lock();
}

static void at_exit(void) {
  struct timespec until;
  atomic_store(&shut, true);
  (void)clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec++;
  if (pthread_rwlock_timedwrlock(&lock, &until) == 0)
    (void)pthread_rwlock_unlock(&lock);
}

bool dlk_tls_gate_open(void) {
  return make_lock() &&
         pthread_atfork(before_fork, after_fork, in_child) == 0 &&
         atexit(at_exit) == 0;
}

bool dlk_tls_enter(void) {
  (void)pthread_rwlock_rdlock(&lock);
  if (!atomic_load(&shut))
    return true;
  (void)pthread_rwlock_unlock(&lock);
  return false;
}

void dlk_tls_leave(void) {
  (void)pthread_rwlock_unlock(&lock);
}
