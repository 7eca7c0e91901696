/* Closing is a state of the engine; tickets that wait for it are in a list.
 *
 *   OPEN -> ENDING     waits are cancelled, holds given back      begin
 *        -> DRAINING   until no operation is under way            begin
 *        -> STOPPING   the store is asked to stop                 set_stopping
 *        -> STOPPED    nothing of it is left in the loop  dlk_close_stopped
 *
 * I1  The first close ticket begins it; others join the list. A cancelled or
 *     dropped one leaves the list and changes nothing.
 * I2  Each close waits no longer than its time. The last one in time stops the
 *     store with what is left, and waits LAST_WHILE for it: else each close in
 *     an outage would leave threads behind. Then all are told.
 * I3  A store whose stop waits for a server (`stop_wait`) is stopped that much
 *     earlier, but not before a quarter of the time: its good-bye frees what
 *     was not released. One that stops at once loses what it did not send.
 * I4  The loop ends once: by the join after STOPPED, or by the renewal thread.
 *     Only the join chooses, and `closed` lets one through. Coming first, it
 *     leaves a reference, sets `left` and posts. `stopped` may be set just
 *     after it looked: so look_over looks at both, when the store has stopped
 *     and when the post runs.
 * I5  The join closes the wakeup's descriptors, except an eventfd that is
 *     polled (loop/wakeup.h). No ticket is told of afterwards.
 *
 * A lease taken after the close was given back: its taker is told that the
 * store was closed (dlk_engine_is_open). */
#include "engine/ticket/close.h"

#include "engine/hold/renewal.h"
#include "engine/in_use.h"
#include "engine/local/local_queue.h"
#include "engine/ticket/request.h"
#include "loop/life.h"
#include "loop/owner.h"

/* The store's time to stop, and a while to notice. */
#define NOTICED (50 * DLK_MS)
#define LAST_WHILE (DLK_STOP_WAIT + NOTICED)

/* Each is put back before it is looked at: the store may keep it, and what ends
 * leaves its list. */
static void end_waits(struct dlk_engine *e, uint32_t user) {
  struct dlk_list rest, *ops = &e->work.ops;
  dlk_local_end_all(e, user);
  dlk_list_take(ops, &rest);
  while (!dlk_list_empty(&rest)) {
    struct dlk_list *l = rest.next;
    struct dlk_ticket *t = DLK_CONTAINER(l, struct dlk_ticket, link);
    bool waits = t->op.kind == DLK_OP_ACQUIRE || t->op.kind == DLK_OP_CHANGE;
    waits = waits && (user == 0 || t->user == user);
    dlk_list_remove(l);
    dlk_list_append(ops, l);
    if (waits && t->op.ending == DLK_OK)
      dlk_request_end(t, DLK_CANCELLED);
  }
}

static void give_back_all(struct dlk_engine *e, uint32_t user) {
  struct dlk_list rest;
  dlk_list_take(&e->held.list, &rest);
  while (!dlk_list_empty(&rest)) {
    struct dlk_list *l = rest.next;
    struct dlk_hold *h = DLK_CONTAINER(l, struct dlk_hold, link);
    dlk_list_remove(l);
    dlk_list_append(&e->held.list, l);
    if (user == 0 || h->user == user)
      dlk_hold_give_back(h);
  }
}

static void finish_all(struct dlk_list *tickets) {
  while (!dlk_list_empty(tickets))
    dlk_request_finish(DLK_CONTAINER(tickets->next, struct dlk_ticket, link),
                       NULL);
}

/* Leavers come first: after the join nothing is told. */
static void tell_closers(struct dlk_close *c) {
  finish_all(&c->leavers);
  atomic_store(&c->told, true);
  finish_all(&c->closers);
}

/* Those that the store forgot, or has yet. */
static void end_ops(struct dlk_close *c) {
  struct dlk_list *ops = &c->engine->work.ops;
  for (struct dlk_list *l = ops->next, *next; l != ops; l = next) {
    struct dlk_ticket *t = DLK_CONTAINER(l, struct dlk_ticket, link);
    next = l->next;
    if (c->state == DLK_CLOSE_STOPPED)
      dlk_request_forget(t);
    else
      dlk_request_finish_code(t, DLK_CLOSED);
  }
}

/* ---- the steps ---- */

static void begin(struct dlk_close *c) {
  struct dlk_engine *e = c->engine;
  if (c->state != DLK_CLOSE_OPEN)
    return;
  c->state = DLK_CLOSE_ENDING;
  atomic_store(&e->closing, true);
  end_waits(e, 0);
  give_back_all(e, 0);
  c->state = DLK_CLOSE_DRAINING;
  e->work.idle = &c->stop_post;
  dlk_work_look(e);
}

static void set_stopping(struct dlk_close *c) {
  struct dlk_engine *e = c->engine;
  c->state = DLK_CLOSE_STOPPING;
  e->work.idle = NULL;
  e->refuses = true;
  e->loop.work++; /* until STOPPED */
}

static void stop_now(struct dlk_close *c) {
  set_stopping(c);
  dlk_inbox_put(&c->engine->loop.inbox, &c->stop_post);
}

/* All is done, or stopped all the same. */
static void stop_posted(struct dlk_post *post) {
  struct dlk_close *c = DLK_CONTAINER(post, struct dlk_close, stop_post);
  struct dlk_engine *e = c->engine;
  if (c->state == DLK_CLOSE_DRAINING) {
    if (!dlk_work_is_idle(&e->work))
      return;
    set_stopping(c);
  }
  if (e->store_used)
    e->type->stop(e->store);
  else
    e->host.stopped(&e->host);
}

/* The owner leaves the loop to the renewal thread. */
static void look_over(struct dlk_close *c) {
  c->engine->loop.over = atomic_load(&c->left) && atomic_load(&c->stopped);
}

void dlk_close_stopped(struct dlk_engine *e) {
  struct dlk_close *c = e->close;
  c->state = DLK_CLOSE_STOPPED;
  e->loop.work--;
  dlk_holds_forget_owed(e);
  end_ops(c);
  atomic_store(&c->stopped, true);
  tell_closers(c);
  look_over(c);
}

/* ---- tickets ---- */

/* I3. */
static int64_t drained_by(const struct dlk_ticket *t) {
  int64_t wait = t->engine->type->stop_wait, end = t->op.deadline;
  if (wait == 0 || end == DLK_FOREVER)
    return end;
  int64_t least = t->op.started + (end - t->op.started) / 4;
  int64_t at = end - wait - NOTICED;
  return at > least ? at : least;
}

static void start_posted(struct dlk_post *post) {
  struct dlk_ticket *t = DLK_CONTAINER(post, struct dlk_ticket, start);
  struct dlk_engine *e = t->engine;
  struct dlk_close *c = e->close;
  dlk_list_append(&c->closers, &t->link);
  dlk_timers_set_end(&e->loop.timers, &t->timer, drained_by(t));
  begin(c);
  if (c->state == DLK_CLOSE_STOPPED)
    tell_closers(c);
}

static bool is_drained_later(const struct dlk_close *c, int64_t now) {
  for (const struct dlk_list *l = c->closers.next; l != &c->closers;
       l = l->next)
    if (drained_by(DLK_CONTAINER(l, const struct dlk_ticket, link)) > now)
      return true;
  return false;
}

static void timed_out(struct dlk_timer *timer, int64_t now) {
  struct dlk_ticket *t = DLK_CONTAINER(timer, struct dlk_ticket, timer);
  struct dlk_close *c = t->engine->close;
  struct dlk_timers *timers = &t->engine->loop.timers;
  int64_t last = now + LAST_WHILE, end = t->op.deadline;
  bool others = t->link.next != t->link.prev;
  if (c->state == DLK_CLOSE_DRAINING && !is_drained_later(c, now)) {
    dlk_timers_set(timers, &t->timer, end > last ? end : last);
    stop_now(c);
  } else if (now < end) {
    dlk_timers_set(timers, &t->timer, end);
  } else if (others) {
    dlk_request_finish(t, NULL);
  } else {
    end_ops(c);
    tell_closers(c);
  }
}

/* One user of a shared engine leaves: only its own ends. No event tells of the
 * last op, so the ticket looks now and then. */
static bool has_ops(const struct dlk_engine *e, uint32_t user) {
  const struct dlk_list *ops = &e->work.ops;
  for (const struct dlk_list *l = ops->next; l != ops; l = l->next)
    if (DLK_CONTAINER(l, const struct dlk_ticket, link)->user == user)
      return true;
  return false;
}

static void look_whether_left(struct dlk_timer *timer, int64_t now) {
  struct dlk_ticket *t = DLK_CONTAINER(timer, struct dlk_ticket, timer);
  int64_t next = now + (now - t->op.started) / 4 + DLK_MS / 4;
  if (!has_ops(t->engine, t->user) || now >= t->op.deadline)
    dlk_request_finish(t, NULL);
  else
    dlk_timers_set(&t->engine->loop.timers, timer,
                   next < t->op.deadline ? next : t->op.deadline);
}

static void leave_posted(struct dlk_post *post) {
  struct dlk_ticket *t = DLK_CONTAINER(post, struct dlk_ticket, start);
  dlk_list_append(&t->engine->close->leavers, &t->link);
  end_waits(t->engine, t->user);
  give_back_all(t->engine, t->user);
  look_whether_left(&t->timer, dlk_clock_now());
}

void dlk_close_prepare(struct dlk_ticket *t) {
  bool closes = t->task == DLK_TASK_CLOSE;
  t->start.run = closes ? start_posted : leave_posted;
  t->timer.fire = closes ? timed_out : look_whether_left;
}

/* ---- the end ---- */

/* A ticket would need memory. */
static void left_posted(struct dlk_post *post) {
  struct dlk_close *c = DLK_CONTAINER(post, struct dlk_close, left_post);
  begin(c);
  if (c->state == DLK_CLOSE_DRAINING)
    stop_now(c);
  look_over(c);
}

void dlk_close_init(struct dlk_close *c, struct dlk_engine *e) {
  c->engine = e;
  dlk_list_init(&c->closers);
  dlk_list_init(&c->leavers);
  c->stop_post.run = stop_posted;
  c->left_post.run = left_posted;
}

bool dlk_ticket_ends_engine(const struct dlk_ticket *t) {
  return t->task == DLK_TASK_CLOSE && dlk_ticket_done(t) &&
         !dlk_ticket_error(t) && atomic_load(&t->engine->close->told);
}

bool dlk_close_is_over(const struct dlk_close *c) {
  return atomic_load(&c->engine->loop.ended) && atomic_load(&c->stopped);
}

bool dlk_close_by_thread(struct dlk_loop *l) {
  struct dlk_engine *e = DLK_CONTAINER(l, struct dlk_engine, loop);
  if (!l->over)
    return false;
  dlk_loop_end_by_thread(l);
  dlk_engine_drop_ready(e);
  dlk_engine_unref(e);
  return true;
}

void dlk_engine_join(struct dlk_engine *e) {
  if (dlk_engine_forked(e) || atomic_exchange(&e->completions.closed, true))
    return;
  atomic_store(&e->closing, true);
  dlk_in_use_remove(e);
  dlk_socket_hang_up(&e->socket);
  dlk_wakeup_end(&e->loop.wakeup);
  if (atomic_load(&e->fork_stamp) == 0) {
    dlk_loop_set_ended(&e->loop);
  } else if (!atomic_load(&e->close->stopped)) {
    dlk_engine_ref(e);
    atomic_store(&e->close->left, true); /* before the post, see I4 */
    dlk_owner_post(&e->loop, &e->close->left_post, true);
  } else {
    dlk_loop_end(&e->loop);
  }
}
