/* An eventfd that ends the sleep. */
#include "loop/sleeper.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/clock.h"

bool dlk_sleeper_init(struct dlk_sleeper *s) {
  s->fd = -1;
  atomic_init(&s->due, DLK_FOREVER);
  return pthread_mutex_init(&s->lock, NULL) == 0;
}

void dlk_sleeper_destroy(struct dlk_sleeper *s) {
  pthread_mutex_destroy(&s->lock);
}

int dlk_sleeper_open(struct dlk_sleeper *s) {
  s->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return s->fd < 0 ? errno : 0;
}

void dlk_sleeper_end(struct dlk_sleeper *s) {
  pthread_mutex_lock(&s->lock);
  atomic_store(&s->running, false);
  close(s->fd);
  s->fd = -1;
  pthread_mutex_unlock(&s->lock);
}

static void wake(struct dlk_sleeper *s) {
  uint64_t one = 1;
  ssize_t n = write(s->fd, &one, sizeof one);
  (void)n; /* full: it is signalled already */
}

bool dlk_sleeper_stop(struct dlk_sleeper *s) {
  pthread_mutex_lock(&s->lock);
  bool running = atomic_exchange(&s->running, false);
  atomic_store(&s->stop, true);
  if (running)
    wake(s);
  pthread_mutex_unlock(&s->lock);
  return running;
}

void dlk_sleeper_signal(struct dlk_sleeper *s) {
  if (atomic_exchange(&s->wake, 0) == 0)
    return;
  pthread_mutex_lock(&s->lock);
  if (atomic_load(&s->running))
    wake(s);
  pthread_mutex_unlock(&s->lock);
}

void dlk_sleeper_clear(struct dlk_sleeper *s) {
  uint64_t n;
  ssize_t got = read(s->fd, &n, sizeof n);
  (void)got;
}
