/* Where a request goes: at its start, and when the store is done with it. */
#include "engine/ticket/dispatch.h"

#include "engine/hold/grant.h"
#include "engine/hold/on_hold.h"
#include "engine/local/local_queue.h"
#include "engine/ticket/request.h"

static struct dlk_ticket *of_op(struct dlk_op *op) {
  return (struct dlk_ticket *)(void *)op;
}

static bool is_on_hold(const struct dlk_ticket *t) {
  return t->hold && !dlk_ticket_makes_hold(t);
}

static void start(struct dlk_ticket *t) {
  bool closing = atomic_load(&t->engine->closing);
  if (closing && t->task != DLK_TASK_GIVE_BACK)
    dlk_request_finish_code(t, DLK_CLOSED);
  else if (dlk_ticket_is_abandoned(t))
    dlk_request_finish_code(t, DLK_CANCELLED);
  else if (is_on_hold(t))
    dlk_on_hold_start(t);
  else if (!dlk_local_join(t, false))
    dlk_request_submit(t);
}

static void start_posted(struct dlk_post *post) {
  start(DLK_CONTAINER(post, struct dlk_ticket, start));
}

struct dlk_ticket *dlk_dispatch_new(struct dlk_engine *e,
                                    const struct dlk_request *r) {
  struct dlk_ticket *t = dlk_request_new(e, r);
  if (t)
    t->start.run = start_posted;
  return t;
}

bool dlk_dispatch_queue_up(struct dlk_ticket *t) {
  return dlk_ticket_is(t, DLK_OP_ACQUIRE) &&
         !atomic_load(&t->engine->closing) && dlk_local_join(t, true);
}

void dlk_dispatch_done(struct dlk_host *host, struct dlk_op *op,
                       const struct dlk_error *err) {
  struct dlk_ticket *t = of_op(op);
  struct dlk_engine *e = (struct dlk_engine *)(void *)host;
  if (err && err->code == DLK_OK)
    err = NULL;
  dlk_request_returned(t);
  if (dlk_ticket_makes_hold(t) && !err)
    dlk_granted(t, dlk_clock_now());
  else if (is_on_hold(t))
    dlk_on_hold_done(t, err);
  else
    dlk_request_finish(t, err);
  dlk_work_look(&e->work, &e->loop);
}

void dlk_dispatch_forget(struct dlk_ticket *t) {
  dlk_request_returned(t);
  if (t->hold)
    dlk_on_hold_forget(t->hold);
  dlk_request_finish_code(t, DLK_CLOSED);
}

static bool release_in_background(struct dlk_hold *h) {
  struct dlk_request r = {.task = DLK_TASK_GIVE_BACK,
                          .kind = DLK_OP_RELEASE,
                          .hold = h,
                          .timeout = -1};
  struct dlk_ticket *t = dlk_request_new(h->engine, &r);
  if (!t)
    return false;
  dlk_ticket_drop_ref(t); /* nobody else has it */
  start(t);
  return true;
}

const struct dlk_lease_calls dlk_dispatch_lease_calls = {
    .left = dlk_on_hold_left,
    .pass = dlk_grant_pass,
    .release = release_in_background};
