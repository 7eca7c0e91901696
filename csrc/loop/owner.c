/* Loop ownership: at most one thread runs the loop, and a waiting caller runs
 * it itself, so that an uncontended lock costs no thread switch.
 *
 * A caller that finds the loop free runs it until its answer comes or its slice
 * ends. It leaves the loop free (never to a named thread) and stores when it
 * must run next (`due`). The renewal thread is signalled only if that is before
 * it wakes anyway, so a tight loop of pairs signals nobody. A caller that finds
 * the renewal thread inside kicks it out and waits for `freed`.
 *
 * In resident mode (event loops, whose thread must not run it) the renewal
 * thread runs the loop. It sleeps on the loop's descriptor without owning the
 * loop, so a caller may take it for a write (dlk_owner_enter). A renewal thread
 * that wakes meanwhile sets `wants_loop`, and is signalled when the loop is
 * left.
 *
 * Posts take no lock, because its holder may be descheduled. Each side of a
 * pair writes first and then reads what the other writes, in one total order,
 * so that one sees the other:
 * I1 post, then is the loop free? / leave the loop, then is the inbox empty? (A
 *   poster that finds it owned kicks; a turn ends with the inbox.)
 * I2 post or `due`, then does the renewal thread sleep? / its `wake`, then the
 *   inbox, `due` and the owner (thread.c)
 * I3 the answer or the loop left, then does a caller wait? / `callers_waiting`,
 *   then the answer and the owner (wait_freed) */
#include "loop/owner.h"

#include <time.h>

/* The renewal thread then picks up work that no caller runs the loop for. */
#define ORPHAN_DELAY (20 * DLK_MS)
#define MOST_TIMERS 10000 /* in one turn */

static bool is_free(struct dlk_loop *l) {
  return atomic_load(&l->owner) == DLK_OWNER_NONE;
}

/* libuv's loop may be closed once `ended` is set. */
static void kick(struct dlk_loop *l) {
  pthread_mutex_lock(&l->lock);
  if (!atomic_load(&l->ended) && !is_free(l))
    uv_async_send(&l->kick);
  pthread_mutex_unlock(&l->lock);
}

/* By any thread, for posts after `ended` was set. */
static void run_late(struct dlk_loop *l) {
  while (!dlk_inbox_empty(&l->inbox) && dlk_owner_take(l, DLK_OWNER_CALLER)) {
    dlk_inbox_run(&l->inbox);
    atomic_store(&l->owner, DLK_OWNER_NONE);
  }
}

bool dlk_owner_post(struct dlk_loop *l, struct dlk_post *post, bool wake) {
  if (atomic_load(&l->ended))
    return false;
  bool fresh = dlk_inbox_put(&l->inbox, post);
  bool resident = atomic_load(&l->resident);
  if (is_free(l)) {
    if ((wake || resident) && fresh)
      dlk_owner_look(l);
  } else if (!resident) { /* else the owner does not sleep */
    kick(l);
  }
  if (atomic_load(&l->ended))
    run_late(l);
  return fresh;
}

void dlk_owner_look(struct dlk_loop *l) {
  atomic_store(&l->sleeper.due, 0);
  if (is_free(l))
    dlk_sleeper_signal(&l->sleeper);
}

bool dlk_owner_take(struct dlk_loop *l, enum dlk_owner who) {
  int none = DLK_OWNER_NONE;
  return is_free(l) &&
         atomic_compare_exchange_strong(&l->owner, &none, (int)who);
}

void dlk_owner_tell_callers(struct dlk_loop *l) {
  if (atomic_load(&l->callers_waiting) == 0)
    return;
  pthread_mutex_lock(&l->lock);
  pthread_cond_broadcast(&l->freed);
  pthread_mutex_unlock(&l->lock);
}

void dlk_owner_end(struct dlk_loop *l) {
  atomic_store(&l->owner, DLK_OWNER_NONE);
  dlk_owner_tell_callers(l);
  run_late(l);
}

/* A renewal thread that finds the loop free sees what was stored (I2). */
void dlk_owner_leave(struct dlk_loop *l) {
  struct dlk_sleeper *s = &l->sleeper;
  /* When an awake thread must look, and when a sleeping one is woken for it. */
  int64_t due = dlk_timers_next(&l->timers);
  int64_t latest = dlk_timers_latest(&l->timers);
  if (l->over) {
    due = latest = 0;
  } else if (l->work > 0 && !atomic_load(&l->resident)) {
    int64_t soon = dlk_clock_now() + ORPHAN_DELAY;
    due = dlk_timers_least(due, soon);
    latest = dlk_timers_least(latest, soon);
  }
  bool batched = dlk_timers_batch_first(&l->timers) != NULL;
  atomic_store_explicit(&l->batched, batched, memory_order_relaxed);
  atomic_store_explicit(&s->due, due, memory_order_relaxed);
  atomic_store(&l->owner, DLK_OWNER_NONE);
  if (!dlk_inbox_empty(&l->inbox)) { /* it came since */
    latest = atomic_load(&l->resident) ? 0 : dlk_clock_now() + ORPHAN_DELAY;
    atomic_store(&s->due, latest);
  }
  if (latest < atomic_load(&s->wake) || atomic_load(&s->wants_loop))
    dlk_sleeper_signal(s);
  dlk_owner_tell_callers(l);
}

bool dlk_owner_enter(struct dlk_loop *l, bool resident) {
  if (atomic_load(&l->ended) || atomic_load(&l->callers_waiting) > 0 ||
      (resident && !atomic_load(&l->sleeper.running)) ||
      !dlk_inbox_empty(&l->inbox) || !dlk_owner_take(l, DLK_OWNER_CALLER))
    return false;
  if (atomic_load(&l->ended)) {
    atomic_store(&l->owner, DLK_OWNER_NONE);
    return false;
  }
  if (resident && !dlk_inbox_empty(&l->inbox)) { /* the renewal thread's */
    dlk_owner_leave(l);
    return false;
  }
  return true;
}

void dlk_owner_leave_to_thread(struct dlk_loop *l) {
  bool at_rest = dlk_owner_at_rest(l);
  dlk_owner_leave(l);
  if (!at_rest)
    dlk_owner_look(l);
}

/* While the caller waits, nothing due is stored. If it does not come back,
 * dropping what it waited for posts or calls dlk_owner_look. */
void dlk_owner_leave_to_caller(struct dlk_loop *l, bool waits) {
  if (waits && dlk_inbox_empty(&l->inbox))
    atomic_store(&l->owner, DLK_OWNER_NONE);
  else
    dlk_owner_leave(l);
  /* The poster saw the loop owned. */
  if (!dlk_inbox_empty(&l->inbox) || atomic_load(&l->resident))
    dlk_owner_look(l);
  dlk_owner_tell_callers(l);
}

/* libuv registers new descriptors at its next turn, and has no call for it. */
static bool all_registered(const uv_loop_t *uv) {
  const void *queue = &uv->watcher_queue;
  return *(const void *const *)queue == queue;
}

bool dlk_owner_at_rest(struct dlk_loop *l) {
  dlk_loop_flush(l);
  return dlk_inbox_empty(&l->inbox) && all_registered(&l->uv) &&
         uv_backend_timeout(&l->uv) != 0;
}

/* A timer that sets itself for a time gone by may fire again: turns are
 * bounded. */
bool dlk_owner_run_due(struct dlk_loop *l, int64_t now) {
  struct dlk_timers *timers = &l->timers;
  struct dlk_heap_node *n = dlk_heap_first(&timers->single);
  bool any = dlk_timers_next(timers) <= now;
  for (int i = 0; i < MOST_TIMERS && n && n->at <= now; i++) {
    struct dlk_timer *t = DLK_CONTAINER(n, struct dlk_timer, node);
    dlk_heap_remove(&timers->single, n);
    t->fire(t, now);
    n = dlk_heap_first(&timers->single);
  }
  if (dlk_timers_batch_next(&l->timers) <= now)
    l->calls->run_batch(l, now);
  return any;
}

static void on_tick(uv_timer_t *tick) {
  struct dlk_loop *l = tick->loop->data;
  l->tick_at = DLK_FOREVER;
  /* uv_run runs timers before its sleep too, then sleeps without one. */
  uv_stop(tick->loop);
}

/* A timer armed too early stays: re-arming costs more than a wake-up. */
static void arm(struct dlk_loop *l, int64_t now) {
  int64_t next = dlk_timers_next(&l->timers);
  if (l->slice_end < next)
    next = l->slice_end;
  if (next == DLK_FOREVER || next >= l->tick_at)
    return;
  l->tick_at = next;
  uv_update_time(&l->uv);
  uint64_t ms = next <= now ? 0 : (uint64_t)dlk_to_ms(next - now);
  uv_timer_start(&l->tick, on_tick, ms, 0);
}

/* It sleeps only without a post and with nothing run: else the awaited answer
 * may have come just now. */
void dlk_owner_turn(struct dlk_loop *l, uv_run_mode mode) {
  int64_t now = dlk_clock_now();
  if (dlk_owner_run_due(l, now) ||
      (mode == UV_RUN_ONCE && !dlk_inbox_empty(&l->inbox)))
    mode = UV_RUN_NOWAIT;
  arm(l, now);
  uv_run(&l->uv, mode);
  l->turned = dlk_clock_now();
  dlk_inbox_run(&l->inbox);
  dlk_wakeup_flush(&l->wakeup);
}

static bool has_come(const atomic_int *state, int end) {
  return atomic_load_explicit(state, memory_order_acquire) >= end;
}

/* The caller reads the one answer under way from the socket itself, which
 * halves the system calls for reading. Meanwhile nothing else needs the owner:
 * - another request, a renewal, background work: each counts in `work`;
 * - a timer, the end of the slice: not due before DLK_AWAIT_MAX, and only the
 *   owner sets timers;
 * - a post, or a caller of another thread (which comes as one): there is none,
 *   and a new one waits for DLK_AWAIT_MAX at most;
 * - other sockets and look-ups: libuv's loop ran less than DLK_AWAIT_MAX ago;
 * - a signal: it ends the read.
 * Not in resident mode, where others could not write meanwhile. */
bool dlk_await(struct dlk_loop *l, int64_t now) {
  int64_t until = now + DLK_AWAIT_MAX;
  if (!l->await || l->work != 1 || until > l->slice_end ||
      now - l->turned > DLK_AWAIT_MAX || until > dlk_timers_next(&l->timers) ||
      !dlk_inbox_empty(&l->inbox) || atomic_load(&l->callers_waiting) > 0 ||
      atomic_load(&l->resident) || !l->await(l->flush_of))
    return false;
  dlk_inbox_run(&l->inbox);
  dlk_wakeup_flush(&l->wakeup);
  return true;
}

static void run(struct dlk_loop *l, const atomic_int *state, int end,
                int64_t now, int64_t until) {
  l->slice_end = until;
  dlk_inbox_run(&l->inbox);
  while (!has_come(state, end) && now < until) {
    if (!dlk_await(l, now))
      dlk_owner_turn(l, UV_RUN_ONCE);
    if (!has_come(state, end))
      now = dlk_clock_now();
  }
  dlk_loop_flush(l); /* what the last answer led to */
  dlk_wakeup_flush(&l->wakeup);
  l->slice_end = DLK_FOREVER;
}

/* free_will_do: the end of ownership is enough. state: NULL or awaited. */
static void wait_freed(struct dlk_loop *l, const atomic_int *state, int end,
                       bool free_will_do, int64_t ns) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  ns += ts.tv_nsec;
  ts.tv_sec += (time_t)(ns / DLK_SEC);
  ts.tv_nsec = (long)(ns % DLK_SEC);
  pthread_mutex_lock(&l->lock);
  atomic_fetch_add(&l->callers_waiting, 1);
  bool done = state && atomic_load(state) >= end;
  bool left = free_will_do && is_free(l);
  if (!done && !left)
    pthread_cond_timedwait(&l->freed, &l->lock, &ts);
  atomic_fetch_sub(&l->callers_waiting, 1);
  pthread_mutex_unlock(&l->lock);
}

/* A thread that attached a lease may own it. */
void dlk_owner_await(struct dlk_loop *l) {
  while (!dlk_owner_take(l, DLK_OWNER_CALLER)) {
    uv_async_send(&l->kick);
    wait_freed(l, NULL, 0, true, ORPHAN_DELAY);
  }
}

void dlk_owner_drive(struct dlk_loop *l, const atomic_int *state, int end,
                     int64_t slice) {
  int64_t now = dlk_clock_now(), until = dlk_time_add(now, slice);
  dlk_wakeup_flush(&l->wakeup); /* nobody watches it from now on */
  while (!has_come(state, end) && !atomic_load(&l->ended)) {
    bool by_thread =
        atomic_load(&l->resident) && atomic_load(&l->sleeper.running);
    if (!by_thread && dlk_owner_take(l, DLK_OWNER_CALLER)) {
      if (atomic_load(&l->ended)) {
        atomic_store(&l->owner, DLK_OWNER_NONE);
        break;
      }
      run(l, state, end, now, until);
      dlk_owner_leave(l);
      break;
    }
    if (now >= until)
      break;
    if (!by_thread)
      kick(l);
    wait_freed(l, state, end, !by_thread, until - now);
    now = dlk_clock_now();
  }
}
