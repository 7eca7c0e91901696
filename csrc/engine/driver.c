/* The driver role: at most one thread is inside the loop, and a caller that
 * waits takes the role itself, so that an uncontended lock costs no thread
 * switch.
 *
 * The role is a word under e->lock. A caller that finds it free takes it and
 * runs the loop until its ticket is done or its slice is over; then it leaves
 * the role free (it is never handed to a named thread) and notes when the
 * loop must run next (`due`). The keeper is signalled only if that is before
 * the time at which it wakes anyway: in a tight loop of acquire and release
 * the next renewal never moves forward, so nobody is signalled. A caller that
 * finds the keeper inside kicks it out and waits for `freed`.
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
 * Work from other threads arrives as posts in the inbox. Whoever drives looks
 * into the inbox before it sleeps, and a post that finds somebody inside
 * kicks the loop, so none is overlooked: either the post was queued before
 * the look, or the kick comes after it and ends the sleep. The look is at
 * `posted`, without the lock, so that an empty inbox costs nothing. */
#include "engine/internal.h"

#include <time.h>

/* Work under way that nobody drives is picked up by the keeper after this. */
#define ORPHAN_DELAY (20 * DLK_MS)

bool dlk_driver_work_left(const struct dlk_engine *e) {
  return e->op_count > 0 || e->busy > 0 || e->renewing > 0;
}

static bool inbox_empty(struct dlk_engine *e) {
  return !atomic_load_explicit(&e->posted, memory_order_acquire);
}

void dlk_driver_drain(struct dlk_engine *e) {
  struct dlk_list todo;
  if (inbox_empty(e))
    return;
  dlk_list_init(&todo);
  pthread_mutex_lock(&e->lock);
  while (!dlk_list_empty(&e->inbox)) {
    struct dlk_list *l = e->inbox.next;
    dlk_list_remove(l);
    dlk_list_append(&todo, l);
  }
  e->inbox_tickets = 0;
  atomic_store_explicit(&e->posted, false, memory_order_release);
  pthread_mutex_unlock(&e->lock);
  while (!dlk_list_empty(&todo)) {
    struct dlk_post *p = DLK_CONTAINER(todo.next, struct dlk_post, link);
    /* Under the lock: a poster looks at the link to see if it is queued. */
    pthread_mutex_lock(&e->lock);
    dlk_list_remove(&p->link);
    pthread_mutex_unlock(&e->lock);
    p->run(p);
  }
}

void dlk_driver_post_inside(struct dlk_engine *e, struct dlk_post *post) {
  pthread_mutex_lock(&e->lock);
  if (dlk_list_empty(&post->link))
    dlk_list_append(&e->inbox, &post->link);
  atomic_store_explicit(&e->posted, true, memory_order_release);
  pthread_mutex_unlock(&e->lock);
}

bool dlk_driver_post(struct dlk_engine *e, struct dlk_post *post, bool wake) {
  pthread_mutex_lock(&e->lock);
  bool fresh = dlk_list_empty(&post->link) && !e->joined;
  if (fresh) {
    dlk_list_append(&e->inbox, &post->link);
    atomic_store_explicit(&e->posted, true, memory_order_release);
  }
  bool inside = e->role != DLK_ROLE_FREE;
  if (inside) {
    uv_async_send(&e->kick);
  } else if ((wake || e->resident) && fresh) {
    e->due = 0;
    if (e->keeper_wake > 0)
      dlk_keeper_signal(e);
  }
  pthread_mutex_unlock(&e->lock);
  return fresh;
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

/* Resident, in the role. False: it is to be posted. What it ended is told by
 * dlk_ticket_watch. */
static bool start_here(struct dlk_ticket *t) {
  struct dlk_engine *e = t->engine;
  bool started = dlk_ticket_start_here(t);
  if (prompt(e)) {
    started = started || start_promptly(t);
    dlk_driver_drain(e); /* what an end led to */
  }
  bool at_rest = dlk_driver_at_rest(e);
  pthread_mutex_lock(&e->lock);
  dlk_driver_leave(e);
  if (!at_rest && e->keeper_wake > 0) {
    e->due = 0;
    dlk_keeper_signal(e);
  }
  pthread_mutex_unlock(&e->lock);
  return started;
}

/* The request is on its way while its caller makes ready to wait. While it is
 * not done the role is left without a look at what is due: the caller comes
 * back to drive, and if it does not, the ticket's collection posts. */
bool dlk_driver_start(struct dlk_ticket *t) {
  struct dlk_engine *e = t->engine;
  pthread_mutex_lock(&e->lock);
  bool resident = e->resident;
  bool mine = e->role == DLK_ROLE_FREE && !e->joined &&
              (!resident || e->keeper_running) && dlk_list_empty(&e->inbox) &&
              e->callers_waiting == 0;
  if (mine)
    e->role = DLK_ROLE_CALLER;
  pthread_mutex_unlock(&e->lock);
  if (!mine)
    return false;
  if (resident)
    return start_here(t);
  t->start.run(&t->start);
  if (e->type->flush && e->store_used)
    e->type->flush(e->store);
  pthread_mutex_lock(&e->lock);
  if (dlk_ticket_done(t) || !dlk_list_empty(&e->inbox) ||
      e->callers_waiting > 0 || e->resident)
    dlk_driver_leave(e);
  else
    e->role = DLK_ROLE_FREE;
  pthread_mutex_unlock(&e->lock);
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
  return inbox_empty(e) && all_registered(&e->loop) &&
         uv_backend_timeout(&e->loop) != 0 &&
         dlk_timers_next(e) > dlk_clock_now();
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
  if (dlk_timers_run(e, now) || (mode == UV_RUN_ONCE && !inbox_empty(e)))
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

void dlk_driver_leave(struct dlk_engine *e) {
  int64_t due = dlk_timers_next(e);
  if (e->resident) {
    due = dlk_list_empty(&e->inbox) ? due : 0;
  } else if (dlk_driver_work_left(e) || !dlk_list_empty(&e->inbox)) {
    int64_t soon = dlk_clock_now() + ORPHAN_DELAY;
    if (soon < due)
      due = soon;
  }
  e->role = DLK_ROLE_FREE;
  e->due = due;
  e->holds_any = !dlk_list_empty(&e->holds);
  if (due < e->keeper_wake || e->keeper_wants)
    dlk_keeper_signal(e);
  if (e->callers_waiting > 0)
    pthread_cond_broadcast(&e->freed);
}

void dlk_driver_told(struct dlk_ticket *t) {
  struct dlk_engine *e = t->engine;
  bool abroad = t->listener != e;
  pthread_mutex_lock(&e->lock);
  if (!abroad)
    dlk_notify_done(e, t);
  if (e->callers_waiting > 0)
    pthread_cond_broadcast(&e->freed);
  pthread_mutex_unlock(&e->lock);
  if (abroad)
    dlk_notify_done_abroad(t);
}

static void wait_freed(struct dlk_engine *e, int64_t ns) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  ns += ts.tv_nsec;
  ts.tv_sec += (time_t)(ns / DLK_SEC);
  ts.tv_nsec = (long)(ns % DLK_SEC);
  e->callers_waiting++;
  pthread_cond_timedwait(&e->freed, &e->lock, &ts);
  e->callers_waiting--;
}

/* A lease that was attached in another thread is driven there. */
void dlk_driver_await_free(struct dlk_engine *e) {
  pthread_mutex_lock(&e->lock);
  while (e->role != DLK_ROLE_FREE) {
    uv_async_send(&e->kick);
    wait_freed(e, ORPHAN_DELAY);
  }
  pthread_mutex_unlock(&e->lock);
}

bool dlk_engine_drive(struct dlk_ticket *t, int64_t slice) {
  struct dlk_engine *e = t->engine;
  int64_t until = dlk_time_add(dlk_clock_now(), slice);
  dlk_notify_ring(e); /* nobody is going to watch what t ended */
  pthread_mutex_lock(&e->lock);
  while (!dlk_ticket_done(t) && !e->joined) {
    bool keepers = e->resident && e->keeper_running;
    if (e->role == DLK_ROLE_FREE && !keepers) {
      e->role = DLK_ROLE_CALLER;
      pthread_mutex_unlock(&e->lock);
      drive(e, t, until);
      pthread_mutex_lock(&e->lock);
      dlk_driver_leave(e);
      break;
    }
    int64_t left = until - dlk_clock_now();
    if (left <= 0)
      break;
    if (!keepers)
      uv_async_send(&e->kick);
    wait_freed(e, left);
  }
  pthread_mutex_unlock(&e->lock);
  return dlk_ticket_done(t);
}
