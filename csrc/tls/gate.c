/* A read-write lock: calls into OpenSSL are its readers.
 *
 * Exit: OpenSSL frees what it has while the renewal thread still runs. Our
 * handler was registered later, so it runs before. It shuts the gate and waits
 * for calls inside, at most a second: these compute and never block.
 *
 * Fork waits in the same way, because the child must not have OpenSSL's locks
 * held by a thread that it lacks. The child makes the lock anew, since another
 * thread's id holds it. */
#include "tls/gate.h"

#include <openssl/err.h>
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
#ifdef __GLIBC__ /* elsewhere readers may delay an exit by a second */
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
  if (atomic_load(&shut)) {
    (void)pthread_rwlock_unlock(&lock);
    return false;
  }
  if (ERR_peek_error() != 0) /* clearing costs more than a look */
    ERR_clear_error();
  return true;
}

void dlk_tls_leave(void) {
  (void)pthread_rwlock_unlock(&lock);
}
