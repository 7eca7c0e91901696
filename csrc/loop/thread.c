/* The renewal thread keeps leases alive whatever Lua does, and finishes what no
 * caller waits for.
 *
 * It sleeps on its eventfd and, while the batch has something and nobody owns
 * the loop, on `watch_fd`. It stores `wake`, then looks once more; a later
 * change (a post, `due`, the owner) signals it (owner.c, I2).
 *
 * When the loop is owned, it looks again at `due` or after LOOK_AGAIN, and asks
 * for no signal: a tight loop of calls would wake it at each.
 *
 * It leaves `watch_fd` alone if it looks soon anyway: a message that hands the
 * lock to a caller then wakes that caller only. */
#include "loop/thread.h"

#include <poll.h>
#include <string.h>

#include "core/native.h"
#include "loop/owner.h"

#define LOOK_AGAIN DLK_TIMERS_LAX
#define SOON (50 * DLK_MS)
#define STACK_SIZE ((size_t)256 * 1024)

static bool is_owned(struct dlk_loop *l) {
  return atomic_load(&l->owner) != DLK_OWNER_NONE;
}

/* When to wake without a signal. */
static int64_t plan(struct dlk_loop *l, bool owned) {
  int64_t due = atomic_load(&l->sleeper.due);
  if (!owned)
    return due;
  int64_t now = dlk_clock_now(), latest = now + LOOK_AGAIN;
  return due > now && due < latest ? due : latest;
}

/* Whether the plan still holds. A thread that leaves the loop from now on finds
 * `wake`. A loop that was owned and is free now was left before that: plan anew
 * with its `due`. */
static bool nothing_new(struct dlk_loop *l, bool owned, int64_t wake) {
  if (atomic_load(&l->sleeper.stop))
    return false;
  if (is_owned(l))
    return true;
  bool posts = atomic_load(&l->resident) && !dlk_inbox_empty(&l->inbox);
  return !owned && !posts && atomic_load(&l->sleeper.due) >= wake;
}

/* True: the watched descriptor is readable. */
static bool sleep_until_due(struct dlk_loop *l) {
  struct dlk_sleeper *s = &l->sleeper;
  bool owned = is_owned(l), resident = atomic_load(&l->resident);
  int64_t wake = plan(l, owned);
  struct pollfd fds[2] = {{.fd = s->fd, .events = POLLIN},
                          {.fd = -1, .events = POLLIN}};
  if (!owned && resident)
    fds[1].fd = uv_backend_fd(&l->uv);
  else if (!owned && atomic_load(&l->batched) && wake > dlk_clock_now() + SOON)
    fds[1].fd = atomic_load(&l->watch_fd);
  atomic_store(&s->wants_loop, resident && owned);
  atomic_store(&s->wake, wake > 0 ? wake : 1);
  bool still = nothing_new(l, owned, wake);
  poll(fds, 2, still ? dlk_poll_ms(wake) : 0);
  if (fds[0].revents)
    dlk_sleeper_clear(s);
  atomic_store(&s->wake, 0);
  atomic_store(&s->wants_loop, false);
  return fds[1].revents != 0;
}

/* False: no work is left, or a caller wants the loop. */
static bool goes_on(struct dlk_loop *l, bool resident) {
  bool work = resident ? !dlk_owner_at_rest(l) ||
                             dlk_timers_next(&l->timers) <= dlk_clock_now()
                       : l->work > 0;
  return work && (resident || atomic_load(&l->callers_waiting) == 0) &&
         !atomic_load(&l->sleeper.stop);
}

/* As the owner: until no work is left. In resident mode only what is ready; the
 * rest is awaited without owning the loop. */
static void drive(struct dlk_loop *l) {
  bool resident = atomic_load(&l->resident);
  dlk_owner_turn(l, UV_RUN_NOWAIT);
  while (goes_on(l, resident))
    dlk_owner_turn(l, resident ? UV_RUN_NOWAIT : UV_RUN_ONCE);
  dlk_owner_run_due(l, dlk_clock_now());
  dlk_wakeup_flush(&l->wakeup);
}

static void *thread_main(void *arg) {
  struct dlk_loop *l = arg;
  bool spoke = false;
  while (!atomic_load(&l->sleeper.stop)) {
    bool due = spoke || atomic_load(&l->sleeper.due) <= dlk_clock_now();
    bool mine = atomic_load(&l->resident) ||
                (due && atomic_load(&l->callers_waiting) == 0);
    if (mine && dlk_owner_take(l, DLK_OWNER_THREAD)) {
      drive(l);
      if (l->calls->over(l))
        return NULL;
      dlk_owner_leave(l);
    }
    spoke = sleep_until_due(l);
  }
  return NULL;
}

bool dlk_thread_start(struct dlk_loop *l, const char *shown,
                      struct dlk_error *err) {
  char why[DLK_REASON_MAX];
  int error = dlk_sleeper_open(&l->sleeper);
  if (error != 0) {
    dlk_error_set(err, DLK_UNAVAILABLE, "no wake-up for '%s': %s", shown,
                  dlk_reason(why, error));
    return false;
  }
  error = dlk_native_start(&l->thread, STACK_SIZE, thread_main, l);
  if (error == 0) {
    pthread_setname_np(l->thread, "dlock-renewal");
    atomic_store(&l->sleeper.running, true);
    return true;
  }
  dlk_sleeper_end(&l->sleeper);
  dlk_error_set(err, DLK_UNAVAILABLE, "no thread to be had: %s",
                strerror(error));
  return false;
}

void dlk_thread_detach(struct dlk_loop *l) {
  dlk_sleeper_end(&l->sleeper);
  pthread_detach(l->thread);
}

void dlk_thread_join(struct dlk_loop *l) {
  if (!dlk_sleeper_stop(&l->sleeper))
    return;
  uv_async_send(&l->kick);
  pthread_join(l->thread, NULL);
  dlk_sleeper_end(&l->sleeper);
}
