/* Closing is a state of the engine; who waits for it stands in a list.
 *
 *   OPEN -> ENDING     waits are cancelled, holds given back
 *        -> DRAINING   until no operation is under way
 *        -> STOPPING   the store was asked to stop
 *        -> STOPPED    nothing of it is left in the loop
 *
 * The first close ticket starts this; every other one joins those who wait.
 * Nothing here depends on any of them: a ticket that is cancelled (the call
 * was interrupted) or dropped leaves the list as any other ticket leaves its
 * own, and the closing goes on, driven by the keeper if nobody else does.
 * Each close waits no longer than its time, but the last one of them has the
 * store stopped with what is left when that is over, and waits DLK_STOP_WAIT
 * and a bit for the store to say so. After that all are told, whatever the
 * store says, and the keeper goes on alone.
 *
 * The end of the loop comes once, when the store has stopped, by one of two:
 * - whoever is told last that it is over, in Lua's thread, which joins the
 *   keeper (dlk_engine_join; `ends_engine` says for which tickets);
 * - the keeper, if the join came before the store had stopped, or nobody could
 *   wait at all. The join then leaves it a reference and says so (`left`); it
 *   ends the loop in the role, which it never leaves to anybody who would use
 *   the loop, and goes with a detached thread.
 * It is one or the other because only the join chooses, and the join comes
 * once: `closed` lets the first one through. `stopped` may be set just after
 * the join looked: it sets `left` and then posts, and the keeper, which runs
 * every post before it sleeps, looks at both after its turn.
 *
 * The join closes the bell and the line, since their descriptors are known to
 * Lua's event loop; a bell that is still polled there is rung instead, and
 * closed by the last who leaves it (wakeup.c). Nobody is told of a ticket any
 * more. All of them are done by then, or get done by DLK_CLOSED.
 *
 * A lease that was granted before and is taken only now (a callback closed the
 * store in between) was given back with the others: its taker is told that the
 * store was closed (`dlk_engine_is_open`). */
#include "engine/internal.h"

/* What a store may take to stop, and what that may take to be noticed. */
#define LAST_WHILE (DLK_STOP_WAIT + 50 * DLK_MS)

static void end_waits(struct dlk_engine *e) {
  dlk_local_end_all(e);
  struct dlk_list *l = e->ops.next;
  while (l != &e->ops) {
    struct dlk_ticket *t = DLK_CONTAINER(l, struct dlk_ticket, link);
    bool waits = t->op.kind == DLK_OP_ACQUIRE || t->op.kind == DLK_OP_CHANGE;
    dlk_ticket_ref(t);
    if (waits && t->op.ending == DLK_OK) {
      dlk_ticket_end(t, DLK_CANCELLED);
      l = e->ops.next; /* others may have ended with it */
    } else {
      l = l->next;
    }
    dlk_ticket_drop_ref(t);
  }
}

static void give_back_all(struct dlk_engine *e) {
  while (!dlk_list_empty(&e->holds))
    dlk_hold_give_back(DLK_CONTAINER(e->holds.next, struct dlk_hold, link));
}

/* Whoever waits is told; with joins, taking that ends the engine. */
static void tell_closers(struct dlk_engine *e) {
  while (!dlk_list_empty(&e->closers)) {
    struct dlk_ticket *t =
        DLK_CONTAINER(e->closers.next, struct dlk_ticket, link);
    t->ends_engine = true;
    dlk_ticket_finish(t, NULL);
  }
}

/* What the store has not ended: it forgot it, or its callers wait no longer. */
static void end_ops(struct dlk_engine *e) {
  bool stopped = e->close_state == DLK_CLOSE_STOPPED;
  for (struct dlk_list *l = e->ops.next, *next; l != &e->ops; l = next) {
    struct dlk_ticket *t = DLK_CONTAINER(l, struct dlk_ticket, link);
    next = l->next;
    if (stopped)
      dlk_ticket_forget(t);
    else
      dlk_ticket_finish_code(t, DLK_CLOSED);
  }
}

/* ---- the steps ---- */

/* In a turn of its own: the store may be in the middle of something when the
 * last operation ends. */
static void stop_posted(struct dlk_post *post) {
  struct dlk_engine *e = DLK_CONTAINER(post, struct dlk_engine, stop_post);
  if (e->store_used)
    e->type->stop(e->store);
  else
    e->host.stopped(&e->host);
}

static void stop_store(struct dlk_engine *e) {
  e->close_state = DLK_CLOSE_STOPPING;
  e->loop.work++;
  dlk_inbox_put(&e->loop.inbox, &e->stop_post);
}

static void begin(struct dlk_engine *e) {
  if (e->close_state != DLK_CLOSE_OPEN)
    return;
  e->close_state = DLK_CLOSE_ENDING;
  atomic_store(&e->closing, true);
  end_waits(e);
  give_back_all(e);
  dlk_detached_release_adopted(e);
  e->close_state = DLK_CLOSE_DRAINING;
}

void dlk_close_progress(struct dlk_engine *e) {
  if (e->close_state == DLK_CLOSE_DRAINING && dlk_list_empty(&e->ops) &&
      e->busy == 0)
    stop_store(e);
}

void dlk_close_stopped(struct dlk_engine *e) {
  if (e->close_state == DLK_CLOSE_STOPPING)
    e->loop.work--;
  e->close_state = DLK_CLOSE_STOPPED;
  dlk_holds_forget_owed(e);
  end_ops(e);
  atomic_store(&e->stopped, true);
  tell_closers(e);
}

bool dlk_close_refuses(const struct dlk_engine *e) {
  return e->close_state >= DLK_CLOSE_STOPPING;
}

/* ---- tickets ---- */

void dlk_close_start(struct dlk_ticket *t) {
  struct dlk_engine *e = t->engine;
  dlk_list_append(&e->closers, &t->link);
  if (t->op.deadline != DLK_FOREVER)
    dlk_timers_set(&e->loop.timers, &t->timer, t->op.deadline);
  begin(e);
  dlk_close_progress(e);
  if (e->close_state == DLK_CLOSE_STOPPED)
    tell_closers(e);
}

void dlk_close_timed_out(struct dlk_ticket *t) {
  struct dlk_engine *e = t->engine;
  if (t->link.next != t->link.prev) { /* others have more time */
    dlk_ticket_finish(t, NULL);
  } else if (e->close_state == DLK_CLOSE_DRAINING) {
    dlk_timers_set(&e->loop.timers, &t->timer, dlk_clock_now() + LAST_WHILE);
    stop_store(e);
  } else {
    end_ops(e);
    tell_closers(e);
  }
}

/* ---- the end ---- */

/* No ticket is needed for it: there may be no memory for one. */
static void left_posted(struct dlk_post *post) {
  struct dlk_engine *e = DLK_CONTAINER(post, struct dlk_engine, left_post);
  begin(e);
  if (e->close_state == DLK_CLOSE_DRAINING)
    stop_store(e);
}

void dlk_close_init(struct dlk_engine *e) {
  dlk_list_init(&e->closers);
  e->stop_post.run = stop_posted;
  e->left_post.run = left_posted;
}

static void leave_to_thread(struct dlk_engine *e) {
  dlk_engine_ref(e);
  atomic_store(&e->left, true); /* before the post: the owner sees both */
  dlk_owner_post(&e->loop, &e->left_post, true);
}

bool dlk_close_by_thread(struct dlk_loop *l) {
  struct dlk_engine *e = DLK_CONTAINER(l, struct dlk_engine, loop);
  if (!atomic_load(&e->left) || !atomic_load(&e->stopped))
    return false;
  dlk_loop_end_by_thread(l);
  dlk_completions_left(e);
  dlk_engine_unref(e);
  return true;
}

void dlk_engine_join(struct dlk_engine *e) {
  if (dlk_engine_forked(e) || !dlk_completions_close(&e->completions))
    return;
  atomic_store(&e->closing, true);
  dlk_socket_hang_up(&e->socket);
  dlk_wakeup_end(&e->loop.wakeup);
  if (atomic_load(&e->fork_stamp) == 0)
    dlk_loop_set_ended(&e->loop);
  else if (!atomic_load(&e->stopped))
    leave_to_thread(e);
  else
    dlk_loop_end(&e->loop);
}
