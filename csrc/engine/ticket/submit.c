/* Submitting a request. Its post `start` starts it: the loop's owner runs that
 * from the inbox, or the caller at once if the loop is free. */
#include "engine/ticket/close.h"
#include "engine/ticket/request.h"
#include "loop/owner.h"

static bool prompt(const struct dlk_engine *e) {
  return e->store_used && e->type->fast.prompt &&
         e->type->fast.prompt(e->store);
}

/* For the owner of a resident loop, with no more than a write: a place in the
 * local queue, or an op on a connection that stands. False: t must be posted.
 * dlk_ticket_watch tells of ended tickets. */
static bool start_in_passing(struct dlk_ticket *t) {
  struct dlk_engine *e = t->engine;
  bool queued = dlk_request_queue_up(t), writes = prompt(e);
  bool starts =
      !queued && writes && t->task == DLK_TASK_OP && !atomic_load(&e->closing);
  if (starts)
    t->start.run(&t->start);
  if (writes)
    dlk_inbox_run(&e->loop.inbox);
  dlk_owner_leave_to_thread(&e->loop);
  return queued || starts;
}

/* The caller comes back to run the loop. False: the loop is taken. */
static bool start_now(struct dlk_ticket *t) {
  struct dlk_loop *l = &t->engine->loop;
  bool resident = atomic_load(&l->resident);
  if (!dlk_owner_enter(l, resident))
    return false;
  if (resident)
    return start_in_passing(t);
  dlk_inbox_run(&l->inbox); /* each in its turn */
  t->start.run(&t->start);
  dlk_loop_flush(l);
  dlk_owner_leave_to_caller(l, !dlk_ticket_done(t));
  return true;
}

static struct dlk_ticket *submit(struct dlk_engine *e,
                                 const struct dlk_request *r, bool wake,
                                 struct dlk_error *err) {
  bool ends = r->task == DLK_TASK_CLOSE || r->task == DLK_TASK_LEAVE;
  if (!dlk_engine_is_ours(e, err) || !(ends || dlk_engine_is_open(e, err)) ||
      !dlk_engine_first_use(e, err))
    return NULL;
  struct dlk_ticket *t = dlk_request_new(e, r);
  if (!t) {
    dlk_error_set(err, DLK_UNAVAILABLE, "out of memory");
    return NULL;
  }
  if (ends)
    dlk_close_prepare(t);
  if (!wake && start_now(t))
    return t;
  if (!dlk_inbox_admit(&e->loop.inbox))
    dlk_error_set(err, DLK_UNAVAILABLE,
                  "more than %d requests are queued for '%s'", DLK_INBOX_MAX,
                  e->shown);
  else if (dlk_owner_post(&e->loop, &t->start, wake))
    return t;
  else /* another thread has closed the store */
    dlk_engine_say_closed(e, err);
  dlk_ticket_drop_ref(t);
  dlk_ticket_drop_ref(t);
  return NULL;
}

struct dlk_ticket *dlk_engine_submit(struct dlk_engine *e,
                                     const struct dlk_request *r, bool wake,
                                     struct dlk_error *err) {
  struct dlk_ticket *t = submit(e, r, wake, err);
  if (!t && r->hold)
    dlk_error_name_key(err, dlk_hold_lease(r->hold)->key,
                       dlk_hold_lease(r->hold)->key_len);
  else if (!t && r->kind != DLK_OP_LIST) /* its key is a prefix */
    dlk_error_name_key(err, r->key, r->key_len);
  return t;
}

void dlk_engine_listen(struct dlk_hold *h) {
  if (!h->engine->type->listens || dlk_hold_revoked(h))
    return;
  struct dlk_request r = {.kind = DLK_OP_LISTEN, .hold = h, .timeout = -1};
  struct dlk_error err;
  struct dlk_ticket *t = dlk_engine_submit(h->engine, &r, true, &err);
  if (t)
    dlk_ticket_drop_ref(t);
}

bool dlk_engine_hand_over(struct dlk_hold *h, bool *others) {
  struct dlk_engine *e = h->engine;
  if (!atomic_load(&e->loop.resident) || !dlk_owner_enter(&e->loop, true))
    return false;
  bool can = !atomic_load(&e->closing) && dlk_hold_is_held(h);
  if (!can || !dlk_request_pass(h)) {
    dlk_owner_leave(&e->loop);
    return false;
  }
  if (prompt(e))
    dlk_inbox_run(&e->loop.inbox);
  dlk_owner_leave_to_thread(&e->loop);
  dlk_engine_take_others(e, others);
  return true;
}

bool dlk_engine_drive(struct dlk_ticket *t, int64_t slice) {
  dlk_owner_drive(&t->engine->loop, &t->state, DLK_TICKET_DONE, slice);
  return dlk_ticket_done(t);
}
