/* An eventfd that wakes the listener, or a socket. */
#include "loop/wakeup.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

bool dlk_wakeup_init(struct dlk_wakeup *w) {
  w->event_fd = w->socket_fd = -1;
  w->process = 0;
  return pthread_mutex_init(&w->lock, NULL) == 0;
}

static void close_event(struct dlk_wakeup *w) {
  pthread_mutex_lock(&w->lock);
  int fd = atomic_exchange(&w->event_fd, -1);
  if (fd >= 0)
    close(fd);
  pthread_mutex_unlock(&w->lock);
}

void dlk_wakeup_destroy(struct dlk_wakeup *w) {
  close_event(w);
  dlk_wakeup_set_socket(w, -1);
  pthread_mutex_destroy(&w->lock);
}

static void signal_event(struct dlk_wakeup *w) {
  pthread_mutex_lock(&w->lock);
  int fd = atomic_load(&w->event_fd);
  if (fd >= 0) {
    uint64_t one = 1;
    ssize_t n = write(fd, &one, sizeof one);
    (void)n; /* full: it is signalled already */
  }
  pthread_mutex_unlock(&w->lock);
}

/* A byte only says "look", so a full buffer loses nothing. */
bool dlk_wakeup_beat(struct dlk_wakeup *w) {
  pthread_mutex_lock(&w->lock);
  int fd = w->socket_fd;
  bool open = fd >= 0;
  if (open && send(fd, ".", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
      errno != EAGAIN && errno != EINTR) {
    close(fd);
    w->socket_fd = -1;
    atomic_store(&w->socket_open, false);
    open = false;
  }
  pthread_mutex_unlock(&w->lock);
  return open;
}

void dlk_wakeup_send(struct dlk_wakeup *w) {
  signal_event(w);
  if (atomic_load_explicit(&w->socket_open, memory_order_relaxed))
    dlk_wakeup_beat(w);
}

int dlk_wakeup_fd(struct dlk_wakeup *w, unsigned process) {
  if (w->process != process)
    close_event(w);
  w->process = process;
  int fd = atomic_load(&w->event_fd);
  if (fd >= 0 || w->ended)
    return fd;
  /* Something may be ready already. */
  fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
  atomic_store(&w->event_fd, fd);
  return fd;
}

void dlk_wakeup_clear(struct dlk_wakeup *w) {
  int fd = atomic_load(&w->event_fd);
  if (fd < 0)
    return;
  uint64_t count;
  ssize_t got = read(fd, &count, sizeof count);
  (void)got;
}

void dlk_wakeup_keep(struct dlk_wakeup *w, bool keep) {
  w->kept = keep;
  if (!keep && w->ended)
    close_event(w);
}

void dlk_wakeup_end(struct dlk_wakeup *w) {
  w->ended = true;
  if (w->kept)
    signal_event(w);
  else
    close_event(w);
}

void dlk_wakeup_set_socket(struct dlk_wakeup *w, int fd) {
  pthread_mutex_lock(&w->lock);
  if (w->socket_fd >= 0)
    close(w->socket_fd);
  w->socket_fd = fd;
  atomic_store(&w->socket_open, fd >= 0);
  pthread_mutex_unlock(&w->lock);
}
