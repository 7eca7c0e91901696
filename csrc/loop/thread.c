/* The keeper thread: keeps leases alive whatever Lua is doing, and finishes
 * what nobody waits for.
 *
 * It sleeps in poll(2) on its own eventfd and, while leases are held and the
 * role is free, on the descriptor that the store asked to have watched. First
 * it says when it will wake (`keeper_wake`), then it looks once more at all
 * that might have changed before it said so; whoever changes something after
 * that (a post, `due`, the role) finds that it sleeps, and signals it if that
 * is for earlier. While it is awake keeper_wake is 0: it is going to look
 * anyway.
 *
 * When it finds the role taken it looks again at the known due time, or after
 * LOOK_AGAIN, and does not ask to be told sooner: otherwise a tight loop of
 * calls would wake it at every call. */
#include "engine/internal.h"

#include <errno.h>
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
  if (atomic_exchange(&e->keeper_wake, 0) == 0)
    return;
  pthread_mutex_lock(&e->lock);
  if (atomic_load(&e->keeper_running)) {
    uint64_t one = 1;
    ssize_t n = write(e->keeper_fd, &one, sizeof one);
    (void)n; /* full means signalled already */
  }
  pthread_mutex_unlock(&e->lock);
}

void dlk_keeper_look(struct dlk_engine *e) {
  atomic_store(&e->due, 0);
  if (atomic_load(&e->role) == DLK_ROLE_FREE)
    dlk_keeper_signal(e);
}

/* When to wake without a signal. */
static int64_t plan(struct dlk_engine *e, bool taken) {
  int64_t due = atomic_load(&e->due);
  if (!taken)
    return due;
  int64_t now = dlk_clock_now(), latest = now + LOOK_AGAIN;
  return due > now && due < latest ? due : latest;
}

static int poll_ms(int64_t until) {
  if (until == DLK_FOREVER)
    return -1;
  int64_t now = dlk_clock_now();
  if (until <= now)
    return 0;
  int64_t ms = dlk_to_ms(until - now);
  return ms > INT_MAX ? INT_MAX : (int)ms;
}

/* What was known when it was planned still holds. Whoever leaves the role from
 * now on finds keeper_wake; one who has left it did not, so a role that was
 * taken and is free is a reason to plan anew, by the `due` of that leaving and
 * with the descriptor that nobody inside looks at any more. */
static bool nothing_new(struct dlk_engine *e, bool taken, int64_t wake) {
  if (atomic_load(&e->keeper_stop))
    return false;
  if (atomic_load(&e->role) != DLK_ROLE_FREE)
    return true;
  bool posts = atomic_load(&e->resident) && !dlk_driver_inbox_empty(e);
  return !taken && !posts && atomic_load(&e->due) >= wake;
}

/* True when the watched descriptor spoke. */
static bool sleep_until_due(struct dlk_engine *e) {
  bool taken = atomic_load(&e->role) != DLK_ROLE_FREE;
  bool resident = atomic_load(&e->resident);
  int64_t wake = plan(e, taken);
  struct pollfd fds[2] = {{.fd = e->keeper_fd, .events = POLLIN},
                          {.fd = -1, .events = POLLIN}};
  if (!taken && resident)
    fds[1].fd = uv_backend_fd(&e->loop);
  else if (!taken && atomic_load(&e->holds_any))
    fds[1].fd = atomic_load(&e->watch_fd);
  atomic_store(&e->keeper_wants, resident && taken);
  atomic_store(&e->keeper_wake, wake > 0 ? wake : 1);
  bool still = nothing_new(e, taken, wake);
  poll(fds, 2, still ? poll_ms(wake) : 0);
  if (fds[0].revents) {
    uint64_t n;
    ssize_t got = read(e->keeper_fd, &n, sizeof n);
    (void)got;
  }
  atomic_store(&e->keeper_wake, 0);
  atomic_store(&e->keeper_wants, false);
  return fds[1].revents != 0;
}

/* False: nothing is left to do, or somebody else wants to do it. */
static bool goes_on(struct dlk_engine *e, bool resident) {
  bool work =
      resident ? !dlk_driver_at_rest(e) || dlk_timers_next(e) <= dlk_clock_now()
               : dlk_driver_work_left(e);
  return work && (resident || atomic_load(&e->callers_waiting) == 0) &&
         !atomic_load(&e->keeper_stop);
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
  while (!atomic_load(&e->keeper_stop)) {
    bool due = spoke || atomic_load(&e->due) <= dlk_clock_now();
    bool mine = atomic_load(&e->resident) ||
                (due && atomic_load(&e->callers_waiting) == 0);
    if (mine && dlk_driver_take(e, DLK_ROLE_KEEPER)) {
      drive(e);
      if (dlk_close_left(e)) {
        dlk_close_by_keeper(e);
        return NULL;
      }
      dlk_driver_leave(e);
    }
    spoke = sleep_until_due(e);
  }
  return NULL;
}

bool dlk_keeper_start(struct dlk_engine *e, struct dlk_error *err) {
  e->keeper_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (e->keeper_fd < 0) {
    char why[DLK_REASON_MAX];
    dlk_error_set(err, DLK_UNAVAILABLE, "no wake-up for '%s': %s", e->shown,
                  dlk_reason(why, errno));
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
    atomic_store(&e->keeper_running, true);
    return true;
  }
  close(e->keeper_fd);
  e->keeper_fd = -1;
  dlk_error_set(err, DLK_UNAVAILABLE, "no thread to be had: %s", strerror(rc));
  return false;
}

void dlk_keeper_detach(struct dlk_engine *e) {
  pthread_mutex_lock(&e->lock);
  atomic_store(&e->keeper_running, false);
  close(e->keeper_fd);
  e->keeper_fd = -1;
  pthread_mutex_unlock(&e->lock);
  pthread_detach(e->keeper);
}

void dlk_keeper_join(struct dlk_engine *e) {
  pthread_mutex_lock(&e->lock);
  bool running = atomic_exchange(&e->keeper_running, false);
  atomic_store(&e->keeper_stop, true);
  if (running) {
    uint64_t one = 1;
    ssize_t n = write(e->keeper_fd, &one, sizeof one);
    (void)n;
    uv_async_send(&e->kick);
  }
  pthread_mutex_unlock(&e->lock);
  if (!running)
    return;
  pthread_join(e->keeper, NULL);
  close(e->keeper_fd);
  e->keeper_fd = -1;
}
