/* The renewal thread: keeps leases alive whatever Lua is doing, and finishes
 * what nobody waits for.
 *
 * It sleeps in poll(2) on its own eventfd (sleeper.h) and, while something is
 * in the batch and nobody owns the loop, on the descriptor that is to be
 * watched. First it says when it will wake (`wake`), then it looks once more at
 * all that might have changed before it said so; whoever changes something
 * after that (a post, `due`, the owner) finds that it sleeps, and signals it if
 * that is for earlier. While it is awake `wake` is 0: it is going to look
 * anyway.
 *
 * When it finds the loop owned it looks again at the known due time, or after
 * LOOK_AGAIN, and does not ask to be told sooner: otherwise a tight loop of
 * calls would wake it at every call. For what is lax nobody wakes it if it
 * wakes by itself in time, which after such a look it does.
 *
 * The descriptor is left alone while it is going to look soon anyway. A message
 * that hands the lock to a caller who takes the loop meanwhile then wakes that
 * caller only. */
#include "loop/thread.h"

#include <poll.h>
#include <string.h>

#include "core/native.h"
#include "loop/owner.h"

#define LOOK_AGAIN DLK_TIMERS_LAX
/* Who looks again so soon need not be woken by a message before that. */
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

/* What was known when it was planned still holds. Whoever leaves the loop from
 * now on finds `wake`; one who has left it did not, so a loop that was owned
 * and is free is a reason to plan anew, by the `due` of that leaving and with
 * the descriptor that no owner looks at any more. */
static bool nothing_new(struct dlk_loop *l, bool owned, int64_t wake) {
  if (atomic_load(&l->sleeper.stop))
    return false;
  if (is_owned(l))
    return true;
  bool posts = atomic_load(&l->resident) && !dlk_inbox_empty(&l->inbox);
  return !owned && !posts && atomic_load(&l->sleeper.due) >= wake;
}

/* True when the watched descriptor spoke. */
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

/* False: nothing is left to do, or somebody else wants to do it. */
static bool goes_on(struct dlk_loop *l, bool resident) {
  bool work = resident ? !dlk_owner_at_rest(l) ||
                             dlk_timers_next(&l->timers) <= dlk_clock_now()
                       : l->work > 0;
  return work && (resident || atomic_load(&l->callers_waiting) == 0) &&
         !atomic_load(&l->sleeper.stop);
}

/* As the owner: everything that is ready, then until no work is left. In
 * resident mode only what is ready: the rest is waited for without owning the
 * loop, which a caller may take meanwhile. */
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
    dlk_sleeper_begin(&l->sleeper);
    return true;
  }
  dlk_sleeper_close(&l->sleeper);
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
  dlk_sleeper_close(&l->sleeper);
}
