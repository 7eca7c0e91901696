/* The driver role: at most one thread is inside the loop, and a caller that
 * waits takes the role itself, so that an uncontended lock costs no thread
 * switch.
 *
 * The role is one word. A caller that finds it free takes it and runs the loop
 * until its ticket is done or its slice is over; then it leaves the role free
 * (it is never handed to a named thread) and notes when the loop must run next
 * (`due`). The keeper is signalled only if that is before the time at which it
 * wakes anyway: in a tight loop of acquire and release the next renewal never
 * moves forward, so nobody is signalled. A caller that finds the keeper inside
 * kicks it out and waits for `freed`.
 *
 * In resident mode (for event loops, where nobody may drive) the keeper does
 * all driving, and a caller only waits for `freed`. But it sleeps without the
 * role, on the loop's own descriptor: so a caller may take the role for what
 * takes no longer than a write (start_here): parking a wait, handing a lock to
 * the next of the parked, a request on a connection that stands. That costs no
 * thread switch. A keeper that wakes meanwhile says so (`keeper_wants`) and is
 * signalled when the role is left, as it is if the loop has anything to do
 * before its descriptor speaks.
 *
 * Work from other threads arrives as posts in the inbox. Nobody ever waits for
 * a lock on this way, because a thread that must not be held up (nginx's) would
 * wait for one that the machine has put aside meanwhile. Instead each pair of
 * threads that could miss one another writes first and then reads what the
 * other writes, in one total order, so that one of them sees the other:
 * - post, then is the role free? / leave the role, then is the inbox empty?
 *   (who finds it taken kicks, and the loop's turn ends with the inbox)
 * - post or `due`, then does the keeper sleep? / `keeper_wake`, then the inbox,
 *   `due` and the role (thread.c)
 * - done or the role left, then does a caller wait? / `callers_waiting`, then
 *   done and the role (wait_freed)
 * - watched, then done? / done, then watched? (wakeup.c)
 * e->lock is for sleeping and for waking those who sleep. */
#include "engine/internal.h"

#include <time.h>

/* Work under way that nobody drives is picked up by the keeper after this. */
#define ORPHAN_DELAY (20 * DLK_MS)

bool dlk_driver_work_left(const struct dlk_engine *e) {
  return e->op_count > 0 || e->busy > 0 || e->renewing > 0 ||
         dlk_close_work_left(e);
}

bool dlk_driver_inbox_empty(struct dlk_engine *e) {
  return atomic_load(&e->inbox) == NULL;
}

static struct dlk_post *take_inbox(struct dlk_engine *e) {
  struct dlk_post *newest = atomic_exchange(&e->inbox, NULL), *oldest = NULL;
  atomic_store(&e->inbox_tickets, 0);
  while (newest) {
    struct dlk_post *p = newest;
    newest = p->next;
    p->next = oldest;
    oldest = p;
  }
  return oldest;
}

void dlk_driver_drain(struct dlk_engine *e) {
  if (dlk_driver_inbox_empty(e))
    return;
  struct dlk_post *next;
  for (struct dlk_post *p = take_inbox(e); p; p = next) {
    next = p->next;
    atomic_store(&p->queued, false); /* from now on it may be posted again */
    p->run(p);
  }
}

/* False: it is in there already. */
static bool put(struct dlk_engine *e, struct dlk_post *post) {
  if (atomic_exchange(&post->queued, true))
    return false;
  struct dlk_post *newest = atomic_load(&e->inbox);
  do {
    post->next = newest;
  } while (!atomic_compare_exchange_weak(&e->inbox, &newest, post));
  return true;
}

void dlk_driver_post_inside(struct dlk_engine *e, struct dlk_post *post) {
  put(e, post);
}

/* Ends the sleep of whoever is inside; the loop may be closed already. */
static void kick(struct dlk_engine *e) {
  pthread_mutex_lock(&e->lock);
  if (!atomic_load(&e->joined) && atomic_load(&e->role) != DLK_ROLE_FREE)
    uv_async_send(&e->kick);
  pthread_mutex_unlock(&e->lock);
}

bool dlk_driver_post(struct dlk_engine *e, struct dlk_post *post, bool wake) {
  if (atomic_load(&e->joined))
    return false;
  bool fresh = put(e, post), resident = atomic_load(&e->resident);
  if (atomic_load(&e->role) == DLK_ROLE_FREE) {
    if ((wake || resident) && fresh)
      dlk_keeper_look(e);
  } else if (!resident) { /* else nobody sleeps in there */
    kick(e);
  }
  if (atomic_load(&e->joined))
    dlk_driver_drain_late(e);
  return fresh;
}

void dlk_driver_drain_late(struct dlk_engine *e) {
  while (!dlk_driver_inbox_empty(e) && dlk_driver_take(e, DLK_ROLE_CALLER)) {
    dlk_driver_drain(e);
    atomic_store(&e->role, DLK_ROLE_FREE);
  }
}

/* ---- taking the role and leaving it ---- */

bool dlk_driver_take(struct dlk_engine *e, enum dlk_role role) {
  int free = DLK_ROLE_FREE;
  return atomic_load(&e->role) == DLK_ROLE_FREE &&
         atomic_compare_exchange_strong(&e->role, &free, (int)role);
}

static void tell_callers(struct dlk_engine *e) {
  if (atomic_load(&e->callers_waiting) == 0)
    return;
  pthread_mutex_lock(&e->lock);
  pthread_cond_broadcast(&e->freed);
  pthread_mutex_unlock(&e->lock);
}

void dlk_driver_end(struct dlk_engine *e) {
  atomic_store(&e->role, DLK_ROLE_FREE);
  tell_callers(e);
  dlk_driver_drain_late(e);
}

/* What must be looked at, and when, if nobody takes the role again. */
static int64_t next_due(struct dlk_engine *e) {
  int64_t due = dlk_timers_next(e);
  if (atomic_load(&e->resident) || !dlk_driver_work_left(e))
    return due;
  int64_t soon = dlk_clock_now() + ORPHAN_DELAY;
  return soon < due ? soon : due;
}

/* What is stored before the role goes with it: a keeper that finds the role
 * free sees that too, and one that looked before has said when it wakes. */
void dlk_driver_leave(struct dlk_engine *e) {
  int64_t due = next_due(e);
  bool any = !dlk_list_empty(&e->holds);
  atomic_store_explicit(&e->holds_any, any, memory_order_relaxed);
  atomic_store_explicit(&e->due, due, memory_order_relaxed);
  atomic_store(&e->role, DLK_ROLE_FREE);
  if (!dlk_driver_inbox_empty(e)) { /* it came since the last look */
    due = atomic_load(&e->resident) ? 0 : dlk_clock_now() + ORPHAN_DELAY;
    atomic_store(&e->due, due);
  }
  if (due < atomic_load(&e->keeper_wake) || atomic_load(&e->keeper_wants))
    dlk_keeper_signal(e);
  tell_callers(e);
}

static bool prompt(const struct dlk_engine *e) {
  return e->store_used && e->type->prompt && e->type->prompt(e->store);
}

/* Closing takes longer than a write. */
static bool start_promptly(struct dlk_ticket *t) {
  if (t->request.task != DLK_TASK_OP || atomic_load(&t->engine->closing))
    return false;
  t->start.run(&t->start);
  return true;
}

/* Takes the role if nobody is inside, nobody waits for it and nothing is queued
 * before. */
static bool enter(struct dlk_engine *e, bool resident) {
  if (atomic_load(&e->joined) || atomic_load(&e->callers_waiting) > 0 ||
      (resident && !atomic_load(&e->keeper_running)) ||
      !dlk_driver_inbox_empty(e) || !dlk_driver_take(e, DLK_ROLE_CALLER))
    return false;
  if (atomic_load(&e->joined)) {
    atomic_store(&e->role, DLK_ROLE_FREE);
    return false;
  }
  if (resident && !dlk_driver_inbox_empty(e)) { /* the keeper's */
    dlk_driver_leave(e);
    return false;
  }
  return true;
}

/* Resident: the keeper goes on, if there is anything to do. */
static void leave_to_keeper(struct dlk_engine *e) {
  bool at_rest = dlk_driver_at_rest(e);
  dlk_driver_leave(e);
  if (!at_rest)
    dlk_keeper_look(e);
}

/* Resident, in the role. False: it is to be posted. What it ended is told by
 * dlk_ticket_watch. */
static bool start_here(struct dlk_ticket *t) {
  struct dlk_engine *e = t->engine;
  bool started = dlk_ticket_start_here(t);
  if (prompt(e)) {
    started = started || start_promptly(t);
    dlk_driver_drain(e); /* what an end led to */
  }
  leave_to_keeper(e);
  return started;
}

bool dlk_engine_hand_over(struct dlk_hold *h, bool *others) {
  struct dlk_engine *e = h->engine;
  if (!atomic_load(&e->resident) || !enter(e, true))
    return false;
  bool can = !atomic_load(&e->closing) && !h->listener &&
             atomic_load(&h->state) == DLK_HOLD_HELD;
  if (!can || !dlk_handoff_pass(h)) {
    dlk_driver_leave(e);
    return false;
  }
  if (prompt(e))
    dlk_driver_drain(e); /* what it led to */
  leave_to_keeper(e);
  dlk_notify_others(e, others);
  return true;
}

/* The request is on its way while its caller makes ready to wait. While it is
 * not done the role is left without a look at what is due: the caller comes
 * back to drive, and if it does not, the ticket's collection posts. */
bool dlk_driver_start(struct dlk_ticket *t) {
  struct dlk_engine *e = t->engine;
  bool resident = atomic_load(&e->resident);
  if (!enter(e, resident))
    return false;
  if (resident)
    return start_here(t);
  dlk_driver_drain(e); /* each in its turn */
  t->start.run(&t->start);
  if (e->type->flush && e->store_used)
    e->type->flush(e->store);
  if (!dlk_ticket_done(t) && dlk_driver_inbox_empty(e))
    atomic_store(&e->role, DLK_ROLE_FREE);
  else
    dlk_driver_leave(e);
  /* Somebody came who saw the role taken. */
  if (!dlk_driver_inbox_empty(e) || atomic_load(&e->resident))
    dlk_keeper_look(e);
  tell_callers(e);
  return true;
}

/* libuv tells the kernel of new descriptors only at its next turn, and has no
 * call to ask whether there are such; the field is in its header since 0.11. */
static bool all_registered(const uv_loop_t *loop) {
  const void *queue = &loop->watcher_queue;
  return *(const void *const *)queue == queue;
}

bool dlk_driver_at_rest(struct dlk_engine *e) {
  if (e->type->flush && e->store_used)
    e->type->flush(e->store);
  return dlk_driver_inbox_empty(e) && all_registered(&e->loop) &&
         uv_backend_timeout(&e->loop) != 0;
}

static void on_tick(uv_timer_t *tick) {
  struct dlk_engine *e = tick->loop->data;
  e->tick_at = DLK_FOREVER;
  /* uv_run looks at timers before it sleeps too: without this, one that is
   * due just then would leave it asleep with no timer at all. */
  uv_stop(tick->loop);
}

/* Arms the loop's timer for the next thing due. One that is armed too early
 * is left: it costs a wake-up now and then, re-arming would cost each time. */
static void arm(struct dlk_engine *e, int64_t now) {
  int64_t next = dlk_timers_next(e);
  if (e->slice_end < next)
    next = e->slice_end;
  if (next == DLK_FOREVER || next >= e->tick_at)
    return;
  e->tick_at = next;
  uv_update_time(&e->loop);
  uint64_t ms = next <= now ? 0 : (uint64_t)dlk_to_ms(next - now);
  uv_timer_start(&e->tick, on_tick, ms, 0);
}

/* One round: timers, the loop, posts. The loop sleeps only in ONCE mode, and
 * only if there is no post and no timer did anything: what is waited for may
 * just have happened. */
void dlk_driver_turn(struct dlk_engine *e, uv_run_mode mode) {
  int64_t now = dlk_clock_now();
  if (dlk_timers_run(e, now) ||
      (mode == UV_RUN_ONCE && !dlk_driver_inbox_empty(e)))
    mode = UV_RUN_NOWAIT;
  arm(e, now);
  uv_run(&e->loop, mode);
  dlk_driver_drain(e);
  dlk_notify_ring(e);
}

static void drive(struct dlk_engine *e, const struct dlk_ticket *t,
                  int64_t until) {
  e->slice_end = until;
  dlk_driver_drain(e);
  while (!dlk_ticket_done(t) && dlk_clock_now() < until)
    dlk_driver_turn(e, UV_RUN_ONCE);
  if (e->type->flush && e->store_used)
    e->type->flush(e->store); /* what the last answer led to */
  dlk_notify_ring(e);
  e->slice_end = DLK_FOREVER;
}

void dlk_driver_told(struct dlk_ticket *t) {
  struct dlk_engine *e = t->engine;
  if (t->listener == e)
    dlk_notify_done(t);
  tell_callers(e);
  if (t->listener != e)
    dlk_notify_done_abroad(t);
}

/* Until the role was left, or a ticket got done. t NULL: only the role. */
static void wait_freed(struct dlk_engine *e, const struct dlk_ticket *t,
                       bool free_will_do, int64_t ns) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  ns += ts.tv_nsec;
  ts.tv_sec += (time_t)(ns / DLK_SEC);
  ts.tv_nsec = (long)(ns % DLK_SEC);
  pthread_mutex_lock(&e->lock);
  atomic_fetch_add(&e->callers_waiting, 1);
  bool done = t && dlk_ticket_done(t);
  bool left = free_will_do && atomic_load(&e->role) == DLK_ROLE_FREE;
  if (!done && !left)
    pthread_cond_timedwait(&e->freed, &e->lock, &ts);
  atomic_fetch_sub(&e->callers_waiting, 1);
  pthread_mutex_unlock(&e->lock);
}

/* A lease that was attached in another thread is driven there. */
void dlk_driver_await(struct dlk_engine *e) {
  while (!dlk_driver_take(e, DLK_ROLE_CALLER)) {
    uv_async_send(&e->kick);
    wait_freed(e, NULL, true, ORPHAN_DELAY);
  }
}

bool dlk_engine_drive(struct dlk_ticket *t, int64_t slice) {
  struct dlk_engine *e = t->engine;
  int64_t until = dlk_time_add(dlk_clock_now(), slice);
  dlk_notify_ring(e); /* nobody is going to watch what t ended */
  while (!dlk_ticket_done(t) && !atomic_load(&e->joined)) {
    bool keepers = atomic_load(&e->resident) && atomic_load(&e->keeper_running);
    if (!keepers && dlk_driver_take(e, DLK_ROLE_CALLER)) {
      if (atomic_load(&e->joined)) {
        atomic_store(&e->role, DLK_ROLE_FREE);
        break;
      }
      drive(e, t, until);
      dlk_driver_leave(e);
      break;
    }
    int64_t left = until - dlk_clock_now();
    if (left <= 0)
      break;
    if (!keepers)
      kick(e);
    wait_freed(e, t, !keepers, left);
  }
  return dlk_ticket_done(t);
}
