/* Requests on a hold, which need one that is still ours; but a background
 * release is for holds that ended here and may live on the server.
 *
 * Two lists of the hold have those that wait: `waiters` for its loss,
 * `detaches` for the requests that the store has. A detach waits for all of
 * these: the store may be trying one of them again, and what then comes late
 * would find whoever has attached the lease under the same name. None comes
 * behind it: its handle gives the hold up.
 * Both lists are empty when the hold is freed: what ends it, ends them (left),
 * and each ticket in them has a reference to it. */
#include "engine/hold/on_hold.h"

#include <string.h>

#include "engine/hold/grant.h"
#include "engine/hold/renewal.h"
#include "engine/local/handoff.h"
#include "engine/ticket/request.h"

/* Waits in one of the hold's lists; until its time is over. */
static void wait_in(struct dlk_list *list, struct dlk_ticket *t) {
  dlk_list_append(list, &t->link);
  dlk_timers_set_end(&t->engine->loop.timers, &t->timer, t->op.deadline);
}

/* Released or being released: a release has nothing to do. All else is lost. */
static void start_on_ended(struct dlk_ticket *t) {
  struct dlk_hold *h = t->hold;
  int state = t->op.kind == DLK_OP_RELEASE ? atomic_load(&h->state) : -1;
  bool over = state == DLK_HOLD_RELEASED || state == DLK_HOLD_RELEASING;
  dlk_request_finish_code(t, over ? DLK_OK : DLK_LOST);
}

/* The hold is not renewed any more. */
static void before_detach(struct dlk_hold *h) {
  if (h->lease.claim && !h->renewing)
    dlk_hold_confirm(h); /* a detach need not be for a whole ttl */
  dlk_hold_extending(h, h->lease.ttl);
}

static void start_op(struct dlk_ticket *t) {
  struct dlk_hold *h = t->hold;
  int64_t now = dlk_clock_now();
  bool ours = dlk_hold_check(h, now);
  if (!ours && t->task != DLK_TASK_GIVE_BACK) {
    start_on_ended(t);
    return;
  }
  if (ours && t->op.kind == DLK_OP_RELEASE) {
    if (dlk_grant_pass(h)) {
      dlk_request_finish(t, NULL);
      return;
    }
    dlk_hold_leave(h, now, DLK_HOLD_RELEASING, "it was released");
  }
  t->op.unused = t->op.kind == DLK_OP_RELEASE && !atomic_load(&h->given);
  if (t->op.kind == DLK_OP_DETACH && h->ops > 0) {
    wait_in(&h->detaches, t);
    return;
  }
  if (ours && t->op.kind == DLK_OP_EXTEND)
    dlk_hold_extending(h, t->op.ttl);
  if (ours && t->op.kind == DLK_OP_DETACH) {
    /* One that an attach kept is no name of this engine either. */
    t->op.names = h->named || strcmp(h->lease.owner, h->engine->name) != 0;
    before_detach(h);
  }
  dlk_request_submit(t);
}

static void start_wait_lost(struct dlk_ticket *t) {
  struct dlk_hold *h = t->hold;
  if (dlk_hold_check(h, dlk_clock_now())) {
    wait_in(&h->waiters, t);
  } else if (atomic_load(&h->state) == DLK_HOLD_LOST) {
    dlk_request_finish(t, NULL);
  } else {
    dlk_request_finish_code(t, DLK_CANCELLED);
  }
}

void dlk_on_hold_start(struct dlk_ticket *t) {
  if (t->task == DLK_TASK_WAIT_LOST)
    start_wait_lost(t);
  else
    start_op(t);
}

/* What changes a lease is lost when that ended meanwhile, or its deadline has
 * passed, whatever the store says: somebody may have seen that it is not held,
 * and its release is under way, which whoever attached it would suffer from. */
static bool too_late(const struct dlk_ticket *t) {
  bool changes = t->op.kind == DLK_OP_EXTEND || t->op.kind == DLK_OP_DETACH ||
                 t->op.kind == DLK_OP_DOWNGRADE;
  return changes && !dlk_hold_check(t->hold, dlk_clock_now());
}

static void after_op(struct dlk_ticket *t, const struct dlk_error *err) {
  struct dlk_hold *h = t->hold;
  enum dlk_code code = err ? err->code : DLK_OK;
  bool held = dlk_hold_is_held(h);
  if (t->op.kind == DLK_OP_RELEASE) {
    dlk_hold_release_over(h, code);
  } else if (held && code == DLK_LOST) {
    dlk_hold_leave(h, dlk_clock_now(), DLK_HOLD_LOST,
                   "it expired or was broken");
  } else if (held && t->op.kind == DLK_OP_EXTEND) {
    dlk_hold_extend_over(h, t->op.ttl, code == DLK_OK);
  } else if (held && code == DLK_OK && t->op.kind == DLK_OP_DETACH) {
    dlk_hold_leave(h, dlk_clock_now(), DLK_HOLD_DETACHED, "it was detached");
  } else if (held && t->op.kind == DLK_OP_DETACH) {
    dlk_hold_extend_over(h, 0, false);
  } else if (held && code == DLK_OK && t->op.kind == DLK_OP_DOWNGRADE) {
    dlk_hold_set_want(h, (struct dlk_want){1, 0});
  }
  dlk_handoff_after(h, t->op.kind, code);
}

static void start_detaches(struct dlk_hold *h) {
  while (h->ops == 0 && !dlk_list_empty(&h->detaches)) {
    struct dlk_list *l = h->detaches.next;
    dlk_list_remove(l);
    start_op(DLK_CONTAINER(l, struct dlk_ticket, link));
  }
}

void dlk_on_hold_done(struct dlk_ticket *t, const struct dlk_error *err) {
  static const struct dlk_error gone = {.code = DLK_LOST};
  if (!err && too_late(t))
    err = &gone;
  dlk_ticket_ref(t);
  after_op(t, err);
  dlk_request_finish(t, err);
  start_detaches(t->hold);
  dlk_ticket_drop_ref(t);
}

/* ---- the end of the hold, or of the store ---- */

/* code: DLK_OK or an error. */
static void end_all(struct dlk_list *tickets, enum dlk_code code) {
  while (!dlk_list_empty(tickets)) {
    struct dlk_ticket *t =
        DLK_CONTAINER(tickets->next, struct dlk_ticket, link);
    if (code == DLK_OK)
      dlk_request_finish(t, NULL);
    else
      dlk_request_finish_code(t, code);
  }
}

void dlk_on_hold_left(struct dlk_hold *h, enum dlk_hold_state state) {
  end_all(&h->waiters, state == DLK_HOLD_LOST ? DLK_OK : DLK_CANCELLED);
  end_all(&h->detaches, DLK_LOST);
  dlk_handoff_left(h);
}

void dlk_on_hold_forget(struct dlk_hold *h) {
  end_all(&h->detaches, DLK_CLOSED);
}
