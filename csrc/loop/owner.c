/* Loop ownership: at most one thread runs the loop, and a caller that waits
 * takes it itself, so that an uncontended lock costs no thread switch.
 *
 * The owner is one word. A caller that finds it free takes the loop and runs it
 * until its answer has come or its slice is over. Then it leaves the loop free
 * (never to a named thread) and notes when it must run next (`due`). The
 * renewal thread is signalled only if that is before it wakes anyway: in a
 * tight loop of pairs the next renewal never moves forward, so nobody is
 * signalled. Lax work (timers.h) waits until a thread that found the loop owned
 * looks again. A caller that finds the renewal thread inside kicks it out and
 * waits for `freed`.
 *
 * In resident mode (for event loops, whose thread must not run it) the renewal
 * thread runs the loop, and a caller only waits for `freed`. But that thread
 * sleeps on the loop's descriptor without owning it: so a caller may take the
 * loop for what takes no longer than a write (dlk_owner_enter), without a
 * thread switch. A renewal thread that wakes meanwhile says so (`wants_loop`),
 * and is signalled when the loop is left, as it is if the loop has anything to
 * do before its descriptor speaks.
 *
 * Work from other threads arrives as posts in the inbox. No thread waits for a
 * lock on this way: nginx's would wait for one whose owner is descheduled. Each
 * pair that could miss one another writes first and then reads what the other
 * writes, in one total order, so that one of them sees the other:
 * I1  post, then is the loop free? / leave the loop, then is the inbox empty?
 *     (One that finds it owned kicks, and the loop's turn ends with the inbox.)
 * I2  post or `due`, then does the renewal thread sleep? / its `wake`, then the
 *     inbox, `due` and the owner (thread.c)
 * I3  the answer or the loop left, then does a caller wait? /
 * `callers_waiting`, then the answer and the owner (wait_freed) The loop's lock
 * is for sleeping and for waking sleepers. */
#include "loop/owner.h"

#include <time.h>

/* Work under way that nobody runs the loop for is picked up by the renewal
 * thread after this. */
#define ORPHAN_DELAY (20 * DLK_MS)
#define MOST_TIMERS 10000 /* in one turn */

static bool is_free(struct dlk_loop *l) {
  return atomic_load(&l->owner) == DLK_OWNER_NONE;
}

/* Ends the sleep of the owner; libuv's loop may be closed already. */
static void kick(struct dlk_loop *l) {
  pthread_mutex_lock(&l->lock);
  if (!atomic_load(&l->ended) && !is_free(l))
    uv_async_send(&l->kick);
  pthread_mutex_unlock(&l->lock);
}

/* Once `ended` is set, by anybody: what was posted too late. */
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
  } else if (!resident) { /* else nobody sleeps in there */
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

/* ---- taking the loop and leaving it ---- */

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

/* When somebody must look, if nobody takes the loop again: a thread that is
 * awake; and by when one has to be woken. */
struct moment {
  int64_t due, latest;
};

static struct moment next_due(struct dlk_loop *l) {
  struct moment m = {dlk_timers_next(&l->timers),
                     dlk_timers_latest(&l->timers)};
  if (l->over)
    return (struct moment){0, 0};
  if (l->work == 0 || atomic_load(&l->resident))
    return m;
  int64_t soon = dlk_clock_now() + ORPHAN_DELAY;
  m.due = dlk_timers_least(m.due, soon);
  m.latest = dlk_timers_least(m.latest, soon);
  return m;
}

/* What is stored before the loop is left goes with it: a renewal thread that
 * finds it free sees that too, and one that looked before has said when it
 * wakes. */
void dlk_owner_leave(struct dlk_loop *l) {
  struct dlk_sleeper *s = &l->sleeper;
  struct moment m = next_due(l);
  bool batched = dlk_timers_batch_first(&l->timers) != NULL;
  atomic_store_explicit(&l->batched, batched, memory_order_relaxed);
  atomic_store_explicit(&s->due, m.due, memory_order_relaxed);
  atomic_store(&l->owner, DLK_OWNER_NONE);
  if (!dlk_inbox_empty(&l->inbox)) { /* it came since the last look */
    m.latest = atomic_load(&l->resident) ? 0 : dlk_clock_now() + ORPHAN_DELAY;
    atomic_store(&s->due, m.latest);
  }
  if (m.latest < atomic_load(&s->wake) || atomic_load(&s->wants_loop))
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

/* While he waits for something the loop is left without a look at what is due:
 * if he does not come back, whoever drops what he waited for posts, or has the
 * renewal thread look. */
void dlk_owner_leave_to_caller(struct dlk_loop *l, bool waits) {
  if (waits && dlk_inbox_empty(&l->inbox))
    atomic_store(&l->owner, DLK_OWNER_NONE);
  else
    dlk_owner_leave(l);
  /* Somebody came who saw the loop owned. */
  if (!dlk_inbox_empty(&l->inbox) || atomic_load(&l->resident))
    dlk_owner_look(l);
  dlk_owner_tell_callers(l);
}

/* ---- by the owner ---- */

/* libuv tells the kernel of new descriptors only at its next turn, and has no
 * call to ask whether there are such; the field is in its header since 0.11. */
static bool all_registered(const uv_loop_t *uv) {
  const void *queue = &uv->watcher_queue;
  return *(const void *const *)queue == queue;
}

bool dlk_owner_at_rest(struct dlk_loop *l) {
  dlk_loop_flush(l);
  return dlk_inbox_empty(&l->inbox) && all_registered(&l->uv) &&
         uv_backend_timeout(&l->uv) != 0;
}

/* A single timer that sets itself again for a time gone by fires in the next
 * turn, not in this one, and a turn is always finite. */
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
  /* uv_run looks at timers before it sleeps too: without this, one that is
   * due just then would leave it asleep with no timer at all. */
  uv_stop(tick->loop);
}

/* Arms libuv's timer for the next thing due. One that is armed too early is
 * left: it costs a wake-up now and then, re-arming would cost each time. */
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

/* It sleeps only if there is no post and nothing was due: what is waited for
 * may just have happened. */
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

/* ---- a caller waits ---- */

static bool has_come(const atomic_int *state, int end) {
  return atomic_load_explicit(state, memory_order_acquire) >= end;
}

/* A caller that waits for the one answer under way reads it itself, blocked in
 * the connection's socket, instead of asking libuv where something came from:
 * that halves the system calls for reading of an uncontended lock. False:
 * libuv's loop has to be run. It waits so for DLK_AWAIT_MAX at most, and only
 * while nothing else can need the owner:
 * - Another request, a renewal, background work: each counts as work.
 * - A timer, the end of the slice: none is due before DLK_AWAIT_MAX, and only
 *   the owner sets timers.
 * - A post: there is none. One that comes meanwhile waits for the answer, or
 *   for DLK_AWAIT_MAX: the owner looks into the inbox next.
 * - A caller of another thread: none waits. One that comes waits as a post.
 * - Other sockets and look-ups: libuv's loop was run less than DLK_AWAIT_MAX
 *   ago, so none waits for longer than twice that.
 * - A signal ends the read, and the loop is run to the end of the slice.
 * Not in resident mode: the renewal thread sleeps without owning the loop, or
 * nobody else could write. */
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

/* Until the loop was left, or what is waited for has come. state NULL: only
 * the loop. */
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

/* A lease that was attached in another thread has its loop run there. */
void dlk_owner_await(struct dlk_loop *l) {
  while (!dlk_owner_take(l, DLK_OWNER_CALLER)) {
    uv_async_send(&l->kick);
    wait_freed(l, NULL, 0, true, ORPHAN_DELAY);
  }
}

void dlk_owner_drive(struct dlk_loop *l, const atomic_int *state, int end,
                     int64_t slice) {
  int64_t now = dlk_clock_now(), until = dlk_time_add(now, slice);
  dlk_wakeup_flush(&l->wakeup); /* nobody is going to watch what it ended */
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
