/* The engine's side of a ticket: start, deadline, cancel, result. All of it
 * is done by the owner of the loop.
 *
 * Deadlines: a waiting acquire ends with `timeout`, everything else with
 * `unavailable`. The store is asked to take back what it put on the server
 * (cancel); if that too gets no answer within its time, or at once where there
 * is nothing to take back, the caller is told `unavailable` (or `cancelled`, if
 * that was asked for) and the op goes on in the background until the store
 * calls done.
 *
 * This file goes round in a circle with local_queue.c and handoff.c, because
 * the thing itself does: a release hands the lock to the next request of the
 * local queue, which is granted by that, and whose end lets the one behind it
 * ask the store. */
#include "engine/request.h"

#include "engine/error_text.h"
#include "engine/handoff.h"
#include "engine/local_queue.h"
#include "engine/renewal.h"
#include "engine/transfer.h"
#include "engine/watch.h"

static struct dlk_ticket *of_op(struct dlk_op *op) {
  return (struct dlk_ticket *)(void *)op;
}

/* ---- the end ---- */

static enum dlk_ticket_state state_of(const struct dlk_ticket *t) {
  return (enum dlk_ticket_state)atomic_load_explicit(&t->state,
                                                     memory_order_relaxed);
}

/* The store has the op. */
static bool is_submitted(const struct dlk_ticket *t) {
  return state_of(t) == DLK_TICKET_SUBMITTED || state_of(t) == DLK_TICKET_LATE;
}

/* The only place where it changes: see ticket.h. Who makes it done looks behind
 * that whether somebody watches or waits for it (`completion`, `ends`,
 * callers), so those stores come before these loads in the one order of all. */
static void set_state(struct dlk_ticket *t, enum dlk_ticket_state state) {
  if (state_of(t) < DLK_TICKET_DONE && state >= DLK_TICKET_DONE)
    atomic_store(&t->state, (int)state);
  else
    atomic_store_explicit(&t->state, (int)state, memory_order_release);
}

/* The caller was told, and the store let go: the next one's turn. The engine's
 * reference goes with it. */
static void let_go(struct dlk_ticket *t) {
  dlk_timers_clear(&t->engine->loop.timers, &t->timer);
  dlk_local_done(t);
  dlk_ticket_drop_ref(t);
}

/* Nobody took what it gave, and this is who gives it back. */
static bool to_give_back(struct dlk_ticket *t) {
  return dlk_ticket_decide(t, DLK_FATE_ABANDONED, DLK_FATE_GIVEN_BACK);
}

/* The handle has given the lease up. */
static void detach_over(struct dlk_ticket *t) {
  if (t->error ? dlk_hold_is_held(t->hold) : to_give_back(t))
    dlk_hold_give_back(t->hold);
}

static void count(const struct dlk_ticket *t) {
  if (dlk_ticket_is(t, DLK_OP_ACQUIRE))
    dlk_stats_acquired(&t->engine->stats, t->error ? t->error->code : DLK_OK);
}

static void trace_end(const struct dlk_ticket *t, enum dlk_code code) {
  int64_t now = dlk_clock_now();
  dlk_trace_line(now, "engine", "end", t->op.key, t->op.key_len,
                 "%s %s, after %s ms", dlk_ticket_word(t), dlk_code_name(code),
                 dlk_trace_ms(now - t->op.started).text);
}

static void tell(struct dlk_ticket *t, const struct dlk_error *err,
                 enum dlk_ticket_state next) {
  if (DLK_TRACING)
    trace_end(t, err ? err->code : DLK_OK);
  if (err && err->code != DLK_OK)
    dlk_ticket_keep_error(t, err);
  dlk_local_gone(t);
  count(t);
  set_state(t, next);
  if (dlk_ticket_detaches(t))
    detach_over(t);
  dlk_ticket_tell(t);
  dlk_ticket_end_linked(t);
}

void dlk_request_finish(struct dlk_ticket *t, const struct dlk_error *err) {
  switch (state_of(t)) {
  case DLK_TICKET_OURS:
    dlk_list_remove(&t->link);
    tell(t, err, DLK_TICKET_ENDED);
    let_go(t);
    break;
  case DLK_TICKET_SUBMITTED:
    tell(t, err, DLK_TICKET_LATE);
    break;
  case DLK_TICKET_RETURNED:
    set_state(t, DLK_TICKET_ENDED);
    let_go(t);
    break;
  default: /* LATE: the store has it yet */
    break;
  }
}

void dlk_request_finish_code(struct dlk_ticket *t, enum dlk_code code) {
  struct dlk_error err = {.code = code, .text = ""};
  dlk_request_finish(t, &err);
}

static void count_on_hold(const struct dlk_ticket *t, int by) {
  if (t->hold && !dlk_ticket_makes_hold(t))
    t->hold->ops += by;
}

static void hand_to_store(struct dlk_ticket *t) {
  struct dlk_engine *e = t->engine;
  set_state(t, DLK_TICKET_SUBMITTED);
  dlk_work_begin(&e->work, &e->loop, &t->link);
  count_on_hold(t, 1);
}

static void take_from_store(struct dlk_ticket *t) {
  bool late = state_of(t) == DLK_TICKET_LATE;
  set_state(t, late ? DLK_TICKET_RETURNED : DLK_TICKET_OURS);
  dlk_work_end(&t->engine->loop, &t->link);
  count_on_hold(t, -1);
}

/* ---- early ends ---- */

/* For how long a caller whose time is over waits for what the server says to
 * the withdrawal, or says of itself. What only looks has nothing to withdraw,
 * and a release goes on without its caller. */
static int64_t grace_of(const struct dlk_ticket *t) {
  switch (t->op.kind) {
  case DLK_OP_RELEASE:
  case DLK_OP_PING:
  case DLK_OP_LOCKED:
  case DLK_OP_INSPECT:
  case DLK_OP_LIST:
    return 0;
  default:
    return t->settle;
  }
}

void dlk_request_end(struct dlk_ticket *t, enum dlk_code code) {
  struct dlk_engine *e = t->engine;
  bool late = code == DLK_TIMEOUT && dlk_local_waits(t);
  if (!is_submitted(t) && !late) {
    dlk_request_finish_code(t, code);
    return;
  }
  if (t->op.ending != DLK_OK)
    return;
  t->op.ending = code;
  dlk_timers_set(&e->loop.timers, &t->timer,
                 dlk_time_add(dlk_clock_now(), grace_of(t)));
  if (late)
    dlk_local_late(t);
  else
    e->type->cancel(e->store, &t->op);
}

static enum dlk_code late_code(const struct dlk_ticket *t) {
  bool waits = t->task == DLK_TASK_WAIT_LOST || t->op.kind == DLK_OP_CHANGE ||
               (t->op.kind == DLK_OP_ACQUIRE && t->op.wait);
  return waits ? DLK_TIMEOUT : DLK_UNAVAILABLE;
}

static void timed_out(struct dlk_timer *timer, int64_t now) {
  struct dlk_ticket *t = DLK_CONTAINER(timer, struct dlk_ticket, timer);
  (void)now;
  if (t->op.ending == DLK_OK)
    dlk_request_end(t, late_code(t));
  else
    dlk_request_finish_code(t, t->op.ending == DLK_TIMEOUT ? DLK_UNAVAILABLE
                                                           : t->op.ending);
}

static void run_cancel(struct dlk_post *post) {
  struct dlk_ticket *t = DLK_CONTAINER(post, struct dlk_ticket, cancel);
  if (!dlk_ticket_done(t))
    dlk_request_end(t, dlk_ticket_is_abandoned(t)
                           ? DLK_CANCELLED
                           : (enum dlk_code)atomic_load(&t->wanted));
  else if (dlk_ticket_gives(t) && !dlk_ticket_error(t) && to_give_back(t))
    dlk_hold_give_back(t->hold);
  dlk_ticket_drop_ref(t);
}

/* ---- start ---- */

static void first_submit(struct dlk_engine *e) {
  e->store_used = true;
  e->loop.flush = e->type->flush;
  e->loop.await = e->type->await;
  e->loop.flush_of = e->store;
}

void dlk_request_submit(struct dlk_ticket *t) {
  struct dlk_engine *e = t->engine;
  if (e->refuses) {
    dlk_request_finish_code(t, DLK_CLOSED);
    return;
  }
  hand_to_store(t);
  if (!e->store_used)
    first_submit(e);
  dlk_timers_set_end(&e->loop.timers, &t->timer, t->op.deadline);
  e->type->submit(e->store, &t->op);
}

/* Waits in one of the hold's lists; until its time is over. */
static void wait_in(struct dlk_list *list, struct dlk_ticket *t) {
  dlk_list_append(list, &t->link);
  dlk_timers_set_end(&t->engine->loop.timers, &t->timer, t->op.deadline);
}

/* Requests that need a hold that is still ours. A background release is for
 * holds that ended here and may live on the server. A detach waits for all
 * others: the store may be trying one of them again, and what then comes late
 * would find whoever has attached it under the same name. None comes behind
 * it: its handle gives the hold up. A release waits for one under way. */
static void start_on_hold(struct dlk_ticket *t) {
  struct dlk_hold *h = t->hold;
  int64_t now = dlk_clock_now();
  bool ours = dlk_hold_check(h, now);
  if (!ours && t->task != DLK_TASK_GIVE_BACK) {
    int state = t->op.kind == DLK_OP_RELEASE ? atomic_load(&h->state) : -1;
    bool over = state == DLK_HOLD_RELEASED || state == DLK_HOLD_RELEASING;
    if (state == DLK_HOLD_RELEASING && h->ops > 0)
      wait_in(&h->detaches, t);
    else
      dlk_request_finish_code(t, over ? DLK_OK : DLK_LOST);
    return;
  }
  if (ours && t->op.kind == DLK_OP_RELEASE) {
    if (dlk_handoff_pass(h)) {
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
  bool local = t->op.kind == DLK_OP_DETACH && !t->engine->type->portable;
  if (ours && t->op.kind == DLK_OP_EXTEND)
    dlk_hold_extending(h, t->op.ttl);
  if (ours && t->op.kind == DLK_OP_DETACH && !local) {
    if (h->lease.claim && !h->renewing)
      dlk_hold_confirm(h); /* a detach need not be for a whole ttl */
    /* So it is not renewed; and the server may be left with so much. */
    int64_t rest = h->max_end - now, ttl = h->lease.ttl;
    dlk_hold_extending(h, rest < ttl ? rest : ttl);
    t->op.max_end = h->max_end;
  }
  if (!local) {
    dlk_request_submit(t);
    return;
  }
  t->op.result = dlk_transfer_put(h);
  dlk_request_finish_code(t, t->op.result ? DLK_OK : DLK_UNAVAILABLE);
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

/* Its text is used up, so the hold is handed out or given back: that of a
 * ticket which was abandoned by the post that comes with that (run_cancel). */
static void start_reattach(struct dlk_ticket *t) {
  struct dlk_hold *h = t->hold;
  if (!dlk_hold_check(h, dlk_clock_now())) {
    dlk_request_finish_code(t, DLK_LOST);
  } else if (!dlk_transfer_adopt(h, t->listener)) {
    dlk_hold_give_back(h);
    dlk_request_finish_code(t, DLK_CLOSED);
  } else {
    h->renew = t->op.renew;
    dlk_hold_schedule(h);
    dlk_request_finish(t, NULL);
  }
}

static void start(struct dlk_ticket *t) {
  bool closing = atomic_load(&t->engine->closing);
  if (closing && t->task != DLK_TASK_GIVE_BACK)
    dlk_request_finish_code(t, DLK_CLOSED);
  else if (t->task == DLK_TASK_REATTACH)
    start_reattach(t);
  else if (dlk_ticket_is_abandoned(t))
    dlk_request_finish_code(t, DLK_CANCELLED);
  else if (t->task == DLK_TASK_WAIT_LOST)
    start_wait_lost(t);
  else if (t->hold && !dlk_ticket_makes_hold(t))
    start_on_hold(t);
  else if (!dlk_local_join(t, false))
    dlk_request_submit(t);
}

static void start_posted(struct dlk_post *post) {
  start(DLK_CONTAINER(post, struct dlk_ticket, start));
}

bool dlk_request_queue_up(struct dlk_ticket *t) {
  return dlk_ticket_is(t, DLK_OP_ACQUIRE) &&
         !atomic_load(&t->engine->closing) && dlk_local_join(t, true);
}

struct dlk_ticket *dlk_request_new(struct dlk_engine *e,
                                   const struct dlk_request *r) {
  struct dlk_ticket *t = dlk_ticket_new(e, r);
  if (t) {
    t->start.run = start_posted;
    t->cancel.run = run_cancel;
    t->timer.fire = timed_out;
    DLK_TRACE(t->op.started, "engine", "request", t->op.key, t->op.key_len,
              "%s", dlk_ticket_word(t));
  }
  return t;
}

/* ---- the store is done ---- */

static bool unwanted(const struct dlk_ticket *t) {
  return dlk_ticket_done(t) || dlk_ticket_is_abandoned(t) ||
         t->op.ending == DLK_CANCELLED || t->op.ending == DLK_CLOSED ||
         atomic_load(&t->engine->closing);
}

static void began(struct dlk_ticket *t, int64_t now) {
  struct dlk_hold *h = t->hold;
  DLK_TRACE(now, "engine", "grant", t->op.key, t->op.key_len,
            "fence %lld, after %s ms", (long long)h->lease.fence,
            dlk_trace_ms(now - t->op.started).text);
  if (t->op.kind == DLK_OP_ACQUIRE)
    dlk_stats_waited(&t->engine->stats, now - t->op.started);
  dlk_handoff_held(h, t->queue);
}

void dlk_request_granted(struct dlk_ticket *t, int64_t now) {
  if (unwanted(t)) {
    atomic_store(&t->fate, DLK_FATE_GIVEN_BACK);
    dlk_hold_give_back(t->hold);
    dlk_request_finish_code(t, DLK_CANCELLED);
    return;
  }
  bool limited = t->op.max_end != DLK_FOREVER;
  if (limited)
    t->hold->max_hold = t->op.max_end - now;
  bool old = limited || (t->op.kind == DLK_OP_ATTACH && !t->op.renew);
  if (dlk_hold_begin(t->hold, now, old ? 1 : t->hold->lease.ttl / 10)) {
    began(t, now);
    dlk_request_finish(t, NULL);
    return;
  }
  /* The grant came when most of its time was over: not worth having. */
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

/* What changes a lease is lost when that ended meanwhile, or its deadline has
 * passed, whatever the store says: somebody may have seen that it is not held,
 * and its release is under way, which whoever attached it would suffer from. */
static bool too_late(const struct dlk_ticket *t) {
  bool changes = t->op.kind == DLK_OP_EXTEND || t->op.kind == DLK_OP_DETACH ||
                 t->op.kind == DLK_OP_DOWNGRADE;
  return changes && !dlk_hold_check(t->hold, dlk_clock_now());
}

static void after_hold_op(struct dlk_ticket *t, const struct dlk_error *err) {
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

static void start_detach(struct dlk_hold *h) {
  while (h->ops == 0 && !dlk_list_empty(&h->detaches)) {
    struct dlk_list *l = h->detaches.next;
    dlk_list_remove(l);
    start_on_hold(DLK_CONTAINER(l, struct dlk_ticket, link));
  }
}

void dlk_request_op_done(struct dlk_host *host, struct dlk_op *op,
                         const struct dlk_error *err) {
  struct dlk_ticket *t = of_op(op);
  struct dlk_engine *e = (struct dlk_engine *)(void *)host;
  if (err && err->code == DLK_OK)
    err = NULL;
  take_from_store(t);
  if (dlk_ticket_makes_hold(t) && !err) {
    dlk_request_granted(t, dlk_clock_now());
  } else {
    static const struct dlk_error gone = {.code = DLK_LOST};
    dlk_ticket_ref(t);
    if (t->hold && !dlk_ticket_makes_hold(t)) {
      err = !err && too_late(t) ? &gone : err;
      after_hold_op(t, err);
    }
    dlk_request_finish(t, err);
    if (t->hold)
      start_detach(t->hold);
    dlk_ticket_drop_ref(t);
  }
  dlk_work_look(&e->work, &e->loop);
}

/* ---- what leases ask ---- */

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

void dlk_request_forget(struct dlk_ticket *t) {
  take_from_store(t);
  if (t->hold)
    end_all(&t->hold->detaches, DLK_CLOSED);
  dlk_request_finish_code(t, DLK_CLOSED);
}

static void left(struct dlk_hold *h, enum dlk_hold_state state) {
  end_all(&h->waiters, state == DLK_HOLD_LOST ? DLK_OK : DLK_CANCELLED);
  end_all(&h->detaches, DLK_LOST);
  dlk_transfer_end(h);
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
  dlk_ticket_drop_ref(t); /* nobody else has it */
  start(t);
  return true;
}

const struct dlk_lease_calls dlk_request_lease_calls = {
    .left = left, .pass = dlk_handoff_pass, .release = release_in_background};
