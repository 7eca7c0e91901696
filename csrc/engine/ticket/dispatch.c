/* What a request does at its start, and its answer to its hold.
 *
 * A grant begins the lease, or is given back.
 *
 * A request on a hold needs one that is ours; only a background release is for
 * others. Tickets wait in two lists of a hold: `waiters` for its loss,
 * `detaches` for its other requests. The store may repeat one of these, and
 * would find the attached lease under the same name. No request comes behind a
 * detach: its handle is given up. The end of a hold empties both lists
 * (hold_left). */
#include "engine/ticket/dispatch.h"

#include <string.h>

#include "engine/hold/renewal.h"
#include "engine/in_use.h"
#include "engine/local/handoff.h"
#include "engine/ticket/request.h"

static bool is_on_hold(const struct dlk_ticket *t) {
  return t->hold && !dlk_ticket_makes_hold(t);
}

/* ---- grants ---- */

static bool unwanted(const struct dlk_ticket *t) {
  return dlk_ticket_done(t) || dlk_ticket_is_abandoned(t) ||
         t->op.ending == DLK_CANCELLED || t->op.ending == DLK_CLOSED ||
         atomic_load(&t->engine->closing);
}

static void lease_begun(struct dlk_ticket *t, int64_t now) {
  DLK_TRACE(now, "engine", "grant", t->op.key, t->op.key_len,
            "fence %lld, after %s ms", (long long)t->hold->lease.fence,
            dlk_trace_ms(now - t->op.started).text);
  if (t->op.kind == DLK_OP_ACQUIRE)
    dlk_stats_put(&t->engine->stats.wait, now - t->op.started);
  if (t->engine->behind_tls)
    dlk_in_use_behind_tls();
  dlk_handoff_held(t->hold, t->queue);
}

static void granted(struct dlk_ticket *t, int64_t now) {
  if (unwanted(t)) {
    atomic_store(&t->fate, DLK_FATE_GIVEN_BACK);
    dlk_hold_give_back(t->hold);
    dlk_request_finish_code(t, DLK_CANCELLED);
    return;
  }
  bool old = t->op.kind == DLK_OP_ATTACH && !t->op.renew;
  if (dlk_hold_begin(t->hold, now, old ? 1 : t->hold->lease.ttl / 10)) {
    lease_begun(t, now);
    dlk_request_finish(t, NULL);
    return;
  }
  /* The grant came too late to be of use. */
  dlk_hold_give_back(t->hold);
  bool again = t->op.kind == DLK_OP_ACQUIRE && t->op.wait &&
               t->op.ending == DLK_OK && now < t->op.deadline;
  if (again && dlk_ticket_new_candidate(t)) {
    dlk_request_submit(t);
    return;
  }
  char key[DLK_QUOTED_MAX];
  struct dlk_error err;
  dlk_error_set(&err, DLK_UNAVAILABLE,
                "%s: '%s' answered too late for its ttl of %lld ms; use a "
                "longer ttl",
                dlk_quote(key, t->op.key, t->op.key_len), t->engine->shown,
                (long long)(t->hold->lease.ttl / DLK_MS));
  dlk_request_finish(t, &err);
}

bool dlk_dispatch_pass(struct dlk_hold *h) {
  int64_t now = dlk_clock_now();
  struct dlk_ticket *t = dlk_handoff_pass(h, now);
  if (t)
    granted(t, now);
  return t != NULL;
}

/* ---- requests on a hold ---- */

static void wait_in(struct dlk_list *list, struct dlk_ticket *t) {
  dlk_list_append(list, &t->link);
  dlk_timers_set_end(&t->engine->loop.timers, &t->timer, t->op.deadline);
}

static void start_wait_lost(struct dlk_ticket *t) {
  struct dlk_hold *h = t->hold;
  if (dlk_hold_check(h, dlk_clock_now()))
    wait_in(&h->waiters, t);
  else if (atomic_load(&h->state) == DLK_HOLD_LOST)
    dlk_request_finish(t, NULL);
  else
    dlk_request_finish_code(t, DLK_CANCELLED);
}

/* Releasing again is fine; all else is lost. */
static void start_on_ended(struct dlk_ticket *t) {
  int state = atomic_load(&t->hold->state);
  bool over = t->op.kind == DLK_OP_RELEASE &&
              (state == DLK_HOLD_RELEASED || state == DLK_HOLD_RELEASING);
  dlk_request_finish_code(t, over ? DLK_OK : DLK_LOST);
}

static void start_on_hold(struct dlk_ticket *t) {
  struct dlk_hold *h = t->hold;
  int64_t now = dlk_clock_now();
  bool ours = dlk_hold_check(h, now);
  if (!ours && t->task != DLK_TASK_GIVE_BACK) {
    start_on_ended(t);
    return;
  }
  if (ours && t->op.kind == DLK_OP_RELEASE) {
    if (dlk_dispatch_pass(h)) {
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
    /* A name that an attach kept is not this engine's either. */
    t->op.names =
        h->asked.owner || strcmp(h->lease.owner, h->engine->name) != 0;
    if (h->lease.claim && !h->renewing)
      dlk_hold_confirm(h); /* it may be for less than a ttl */
    dlk_hold_extending(h, h->lease.ttl);
  }
  dlk_request_submit(t);
}

/* After its end or deadline a request that changes a lease is lost, even if the
 * store did it: our release is under way, and would hit the lease's next
 * holder. */
static bool too_late(const struct dlk_ticket *t) {
  bool changes = t->op.kind == DLK_OP_EXTEND || t->op.kind == DLK_OP_DETACH ||
                 t->op.kind == DLK_OP_DOWNGRADE;
  return changes && !dlk_hold_check(t->hold, dlk_clock_now());
}

static void answer_to_hold(struct dlk_ticket *t, enum dlk_code code) {
  struct dlk_hold *h = t->hold;
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

static void on_hold_done(struct dlk_ticket *t, const struct dlk_error *err) {
  static const struct dlk_error gone = {.code = DLK_LOST};
  struct dlk_hold *h = t->hold;
  if (!err && too_late(t))
    err = &gone;
  dlk_ticket_ref(t);
  answer_to_hold(t, err ? err->code : DLK_OK);
  dlk_request_finish(t, err);
  while (h->ops == 0 && !dlk_list_empty(&h->detaches)) {
    struct dlk_list *l = h->detaches.next;
    dlk_list_remove(l);
    start_on_hold(DLK_CONTAINER(l, struct dlk_ticket, link));
  }
  dlk_ticket_drop_ref(t);
}

static void end_all(struct dlk_list *tickets, enum dlk_code code) {
  while (!dlk_list_empty(tickets))
    dlk_request_finish_code(
        DLK_CONTAINER(tickets->next, struct dlk_ticket, link), code);
}

/* ---- from start to end ---- */

static void start(struct dlk_ticket *t) {
  bool closing = atomic_load(&t->engine->closing);
  if (closing && t->task != DLK_TASK_GIVE_BACK)
    dlk_request_finish_code(t, DLK_CLOSED);
  else if (dlk_ticket_is_abandoned(t))
    dlk_request_finish_code(t, DLK_CANCELLED);
  else if (t->task == DLK_TASK_WAIT_LOST)
    start_wait_lost(t);
  else if (is_on_hold(t))
    start_on_hold(t);
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
  struct dlk_ticket *t = (struct dlk_ticket *)(void *)op;
  struct dlk_engine *e = (struct dlk_engine *)(void *)host;
  if (err && err->code == DLK_OK)
    err = NULL;
  dlk_request_returned(t);
  if (dlk_ticket_makes_hold(t) && !err)
    granted(t, dlk_clock_now());
  else if (is_on_hold(t))
    on_hold_done(t, err);
  else
    dlk_request_finish(t, err);
  dlk_work_look(e);
}

void dlk_dispatch_forget(struct dlk_ticket *t) {
  dlk_request_returned(t);
  if (t->hold) /* none of these starts */
    end_all(&t->hold->detaches, DLK_CLOSED);
  dlk_request_finish_code(t, DLK_CLOSED);
}

/* ---- what leases ask ---- */

static void hold_left(struct dlk_hold *h, enum dlk_hold_state state) {
  end_all(&h->waiters, state == DLK_HOLD_LOST ? DLK_OK : DLK_CANCELLED);
  end_all(&h->detaches, DLK_LOST);
  dlk_handoff_left(h);
}

static bool release_in_background(struct dlk_hold *h) {
  struct dlk_request r = {.task = DLK_TASK_GIVE_BACK,
                          .kind = DLK_OP_RELEASE,
                          .hold = h,
                          .timeout = -1};
  struct dlk_ticket *t = dlk_request_new(h->engine, &r);
  if (!t)
    return false;
  dlk_ticket_drop_ref(t);
  start(t);
  return true;
}

const struct dlk_lease_calls dlk_dispatch_lease_calls = {
    .left = hold_left,
    .pass = dlk_dispatch_pass,
    .release = release_in_background};
