/* Closing: waits are cancelled, holds given back, then the store is stopped.
 * Each step waits for the one before, and the whole for no longer than the
 * close ticket's time: then the store is stopped with what is left, and after
 * a last short while the ticket completes whatever the store says. */
#include "engine/internal.h"

#define LAST_WHILE (100 * DLK_MS)

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

/* In a turn of its own: the store may be in the middle of something when the
 * last operation ends. */
static void stop_posted(struct dlk_post *post) {
  struct dlk_engine *e = DLK_CONTAINER(post, struct dlk_engine, stop_post);
  if (e->store_used)
    e->type->stop(e->store);
  else
    e->host.stopped(&e->host);
}

void dlk_close_init(struct dlk_engine *e) {
  e->stop_post.run = stop_posted;
}

static void stop_store(struct dlk_engine *e) {
  e->store_stopping = true;
  dlk_driver_post(e, &e->stop_post, true);
}

static void finish_close(struct dlk_engine *e) {
  struct dlk_ticket *t = e->close_ticket;
  e->close_ticket = NULL;
  for (struct dlk_list *l = e->ops.next, *next; l != &e->ops; l = next) {
    struct dlk_ticket *op = DLK_CONTAINER(l, struct dlk_ticket, link);
    next = l->next;
    if (e->store_stopped)
      dlk_ticket_forget(op);
    else
      dlk_ticket_finish_code(op, DLK_CLOSED);
  }
  if (t)
    dlk_ticket_finish(t, NULL);
}

void dlk_close_progress(struct dlk_engine *e) {
  if (!e->close_ticket)
    return;
  if (!e->store_stopping && e->op_count == 0 && e->busy == 0)
    stop_store(e);
  if (e->store_stopped)
    finish_close(e);
}

void dlk_close_start(struct dlk_ticket *t) {
  struct dlk_engine *e = t->engine;
  if (atomic_exchange(&e->closing, true)) {
    dlk_ticket_finish(t, NULL);
    return;
  }
  if (t->op.deadline != DLK_FOREVER)
    dlk_heap_put(&e->timers, &t->timer.node, t->op.deadline);
  end_waits(e);
  give_back_all(e);
  dlk_detached_release_adopted(e);
  e->close_ticket = t;
  dlk_close_progress(e);
}

void dlk_close_timed_out(struct dlk_ticket *t) {
  struct dlk_engine *e = t->engine;
  if (e->store_stopping) {
    finish_close(e);
    return;
  }
  dlk_heap_put(&e->timers, &t->timer.node, dlk_clock_now() + LAST_WHILE);
  stop_store(e);
}
