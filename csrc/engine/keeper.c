/* The keeper thread: keeps leases alive whatever Lua is doing, and finishes
 * what nobody waits for.
 *
 * It sleeps in poll(2) on its own eventfd and, while leases are held and the
 * role is free, on the descriptor that the store asked to have watched. It
 * decides under e->lock when it will wake (`keeper_wake`); whoever leaves the
 * role with something due earlier signals it. While it is awake keeper_wake
 * is 0: it is going to look anyway.
 *
 * When it finds the role taken it looks again at the known due time, or after
 * LOOK_AGAIN, and does not ask to be told sooner: otherwise a tight loop of
 * calls would wake it at every call. */
#include "engine/internal.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LOOK_AGAIN (200 * DLK_MS)
#define STACK_SIZE ((size_t)256 * 1024)

void dlk_keeper_signal(struct dlk_engine *e) {
  uint64_t one = 1;
  ssize_t n = write(e->keeper_fd, &one, sizeof one);
  (void)n; /* full means signalled already */
  e->keeper_wake = 0;
}

void dlk_keeper_look(struct dlk_engine *e) {
  pthread_mutex_lock(&e->lock);
  e->due = 0;
  if (e->role == DLK_ROLE_FREE && e->keeper_wake > 0)
    dlk_keeper_signal(e);
  pthread_mutex_unlock(&e->lock);
}

/* [lock] held. When to wake without a signal. */
static int64_t plan(const struct dlk_engine *e, int64_t now) {
  if (e->role == DLK_ROLE_FREE)
    return e->due;
  int64_t latest = now + LOOK_AGAIN;
  return e->due > now && e->due < latest ? e->due : latest;
}

static int poll_ms(int64_t until, int64_t now) {
  if (until == DLK_FOREVER)
    return -1;
  if (until <= now)
    return 0;
  int64_t ms = dlk_to_ms(until - now);
  return ms > INT_MAX ? INT_MAX : (int)ms;
}

/* [lock] held on entry and exit. True when the watched descriptor spoke. */
static bool sleep_until_due(struct dlk_engine *e) {
  int64_t now = dlk_clock_now();
  int64_t wake = plan(e, now);
  struct pollfd fds[2] = {{.fd = e->keeper_fd, .events = POLLIN},
                          {.fd = -1, .events = POLLIN}};
  if (e->role == DLK_ROLE_FREE && e->resident)
    fds[1].fd = uv_backend_fd(&e->loop);
  else if (e->role == DLK_ROLE_FREE && e->holds_any)
    fds[1].fd = e->watch_fd;
  e->keeper_wants = e->resident && e->role != DLK_ROLE_FREE;
  e->keeper_wake = wake;
  pthread_mutex_unlock(&e->lock);
  poll(fds, 2, poll_ms(wake, now));
  if (fds[0].revents) {
    uint64_t n;
    ssize_t got = read(e->keeper_fd, &n, sizeof n);
    (void)got;
  }
  pthread_mutex_lock(&e->lock);
  e->keeper_wake = 0;
  e->keeper_wants = false;
  return fds[1].revents != 0;
}

/* False: nothing is left to do, or somebody else wants to do it. */
static bool goes_on(struct dlk_engine *e, bool resident) {
  bool work = resident ? !dlk_driver_at_rest(e) : dlk_driver_work_left(e);
  pthread_mutex_lock(&e->lock);
  bool on = work && (resident || e->callers_waiting == 0) && !e->keeper_stop;
  pthread_mutex_unlock(&e->lock);
  return on;
}

/* In the role: everything that is ready, then until no work is left. In
 * resident mode only what is ready: it is waited for without the role, which
 * a caller may take meanwhile. */
static void drive(struct dlk_engine *e) {
  bool resident = atomic_load(&e->resident);
  dlk_driver_turn(e, UV_RUN_NOWAIT);
  while (goes_on(e, resident))
    dlk_driver_turn(e, resident ? UV_RUN_NOWAIT : UV_RUN_ONCE);
  dlk_timers_run(e, dlk_clock_now());
  dlk_notify_ring(e);
}

static void *keeper_main(void *arg) {
  struct dlk_engine *e = arg;
  bool spoke = false;
  pthread_mutex_lock(&e->lock);
  while (!e->keeper_stop) {
    bool due = spoke || e->due <= dlk_clock_now();
    bool mine = e->resident || (due && e->callers_waiting == 0);
    if (e->role == DLK_ROLE_FREE && mine) {
      e->role = DLK_ROLE_KEEPER;
      pthread_mutex_unlock(&e->lock);
      drive(e);
      pthread_mutex_lock(&e->lock);
      dlk_driver_leave(e);
    }
    spoke = e->keeper_stop ? false : sleep_until_due(e);
  }
  pthread_mutex_unlock(&e->lock);
  return NULL;
}

bool dlk_keeper_start(struct dlk_engine *e, struct dlk_error *err) {
  e->keeper_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (e->keeper_fd < 0) {
    dlk_error_set(err, DLK_UNAVAILABLE,
                  "no descriptor left: raise the limit of open files");
    return false;
  }
  pthread_attr_t attr;
  sigset_t all, old;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, STACK_SIZE);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int rc = pthread_create(&e->keeper, &attr, keeper_main, e);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  pthread_attr_destroy(&attr);
  if (rc == 0) {
    pthread_setname_np(e->keeper, "dlock-keeper");
    e->keeper_running = true;
    return true;
  }
  close(e->keeper_fd);
  e->keeper_fd = -1;
  dlk_error_set(err, DLK_UNAVAILABLE, "no thread to be had: %s", strerror(rc));
  return false;
}

void dlk_keeper_join(struct dlk_engine *e) {
  pthread_mutex_lock(&e->lock);
  bool running = e->keeper_running;
  e->keeper_running = false;
  e->keeper_stop = true;
  if (running) {
    dlk_keeper_signal(e);
    if (e->role == DLK_ROLE_KEEPER)
      uv_async_send(&e->kick);
  }
  pthread_mutex_unlock(&e->lock);
  if (!running)
    return;
  pthread_join(e->keeper, NULL);
  close(e->keeper_fd);
  e->keeper_fd = -1;
}
