/* A request from its start to its end, and what its answer does to its hold.
 *
 * At its deadline whoever waits for a grant, a change or a loss ends with
 * `timeout`, everything else with `unavailable`. A cancel asks the store to
 * take back what it left on the server. If no answer comes in time, the caller
 * is told `unavailable`, or the code it asked for, and the op goes on in the
 * background.
 *
 * A grant begins the lease, or is given back.
 *
 * A request on a hold needs one that is ours; only a background release is for
 * others. Tickets wait in two lists of a hold: `waiters` for its loss,
 * `detaches` for its other requests. The store may repeat one of these, and
 * would find the attached lease under the same name. No request comes behind a
 * detach: its handle is given up. The end of a hold empties both lists
 * (hold_left). */
#include "engine/ticket/request.h"

#include <string.h>

#include "engine/hold/renewal.h"
#include "engine/in_use.h"
#include "engine/local/handoff.h"

/* ---- the end ---- */

static enum dlk_ticket_state state_of(const struct dlk_ticket *t) {
  return (enum dlk_ticket_state)atomic_load_explicit(&t->state,
                                                     memory_order_relaxed);
}

/* Only here the state changes. This thread sets it done, then looks for
 * watchers (`completion`, `ends`, callers); these do the opposite. So that
 * store is sequentially consistent. */
static void set_state(struct dlk_ticket *t, enum dlk_ticket_state state) {
  if (state_of(t) < DLK_TICKET_DONE && state >= DLK_TICKET_DONE)
    atomic_store(&t->state, (int)state);
  else
    atomic_store_explicit(&t->state, (int)state, memory_order_release);
}

/* Caller and store are done: the next one's turn. */
static void end_engine_part(struct dlk_ticket *t) {
  dlk_timers_clear(&t->engine->loop.timers, &t->timer);
  dlk_local_done(t);
  dlk_ticket_drop_ref(t);
}

static bool to_give_back(struct dlk_ticket *t) {
  return dlk_ticket_decide(t, DLK_FATE_ABANDONED, DLK_FATE_GIVEN_BACK);
}

static void tell(struct dlk_ticket *t, const struct dlk_error *err,
                 enum dlk_ticket_state next) {
  DLK_TRACE(dlk_clock_now(), "engine", "end", t->op.key, t->op.key_len,
            "%s %s, after %s ms", dlk_ticket_word(t),
            dlk_code_name(err ? err->code : DLK_OK),
            dlk_trace_ms(dlk_clock_now() - t->op.started).text);
  if (err && err->code != DLK_OK)
    dlk_ticket_keep_error(t, err);
  dlk_local_gone(t);
  if (dlk_ticket_is(t, DLK_OP_ACQUIRE))
    dlk_stats_add(&t->engine->stats.acquires[t->error ? t->error->code : 0]);
  set_state(t, next);
  if (dlk_ticket_detaches(t) && /* its handle is given up */
      (t->error ? dlk_hold_is_held(t->hold) : to_give_back(t)))
    dlk_hold_give_back(t->hold);
  dlk_ticket_tell(t);
  dlk_ticket_end_linked(t);
}

void dlk_request_finish(struct dlk_ticket *t, const struct dlk_error *err) {
  switch (state_of(t)) {
  case DLK_TICKET_OURS:
    if (err && err->code == DLK_TIMEOUT && dlk_local_late_head(t))
      return;
    dlk_list_remove(&t->link);
    tell(t, err, DLK_TICKET_ENDED);
    end_engine_part(t);
    break;
  case DLK_TICKET_SUBMITTED:
    tell(t, err, DLK_TICKET_LATE);
    break;
  case DLK_TICKET_RETURNED:
    set_state(t, DLK_TICKET_ENDED);
    end_engine_part(t);
    break;
  default: /* LATE */
    break;
  }
}

void dlk_request_finish_code(struct dlk_ticket *t, enum dlk_code code) {
  struct dlk_error err = {.code = code, .text = ""};
  dlk_request_finish(t, &err);
}

/* ---- to the store and back ---- */

static bool is_on_hold(const struct dlk_ticket *t) {
  return t->hold && !dlk_ticket_makes_hold(t);
}

/* A detach waits until these are over. LISTEN may last, and changes nothing. */
static void count_on_hold(const struct dlk_ticket *t, int by) {
  if (is_on_hold(t) && t->op.kind != DLK_OP_LISTEN)
    t->hold->ops += by;
}

static void returned(struct dlk_ticket *t) {
  bool late = state_of(t) == DLK_TICKET_LATE;
  set_state(t, late ? DLK_TICKET_RETURNED : DLK_TICKET_OURS);
  dlk_list_remove(&t->link); /* dlk_work_look must follow */
  t->engine->loop.work--;
  count_on_hold(t, -1);
}

static void submit(struct dlk_ticket *t) {
  struct dlk_engine *e = t->engine;
  if (e->refuses) {
    dlk_request_finish_code(t, DLK_CLOSED);
    return;
  }
  set_state(t, DLK_TICKET_SUBMITTED);
  dlk_list_append(&e->work.ops, &t->link);
  e->loop.work++;
  count_on_hold(t, 1);
  if (!e->store_used) {
    e->store_used = true;
    e->loop.flush = e->type->fast.flush;
    e->loop.await = e->type->fast.await;
    e->loop.flush_of = e->store;
  }
  dlk_timers_set_end(&e->loop.timers, &t->timer, t->op.deadline);
  e->type->submit(e->store, &t->op);
}

/* ---- early ends ---- */

/* How long an ended caller waits for a cancel's answer. Reads have nothing to
 * take back, and a release goes on alone. A try and an extension end by the
 * store's own clock: the caller waits a moment for the reason. */
static int64_t grace_of(const struct dlk_ticket *t) {
  switch (t->op.kind) {
  case DLK_OP_RELEASE:
  case DLK_OP_PING:
  case DLK_OP_LOCKED:
  case DLK_OP_INSPECT:
  case DLK_OP_LIST:
    return 0;
  case DLK_OP_EXTEND:
    return t->withdrawal / 16;
  case DLK_OP_ACQUIRE:
    return t->op.wait ? t->withdrawal : t->withdrawal / 16;
  default:
    return t->withdrawal;
  }
}

void dlk_request_end(struct dlk_ticket *t, enum dlk_code code) {
  struct dlk_engine *e = t->engine;
  bool late = code == DLK_TIMEOUT && t->place == DLK_PLACE_WAITS;
  bool submitted = state_of(t) == DLK_TICKET_SUBMITTED;
  if (!submitted && state_of(t) != DLK_TICKET_LATE && !late) {
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

static void timed_out(struct dlk_timer *timer, int64_t now) {
  struct dlk_ticket *t = DLK_CONTAINER(timer, struct dlk_ticket, timer);
  bool waits = t->task == DLK_TASK_WAIT_LOST || t->op.kind == DLK_OP_CHANGE ||
               (t->op.kind == DLK_OP_ACQUIRE && t->op.wait);
  (void)now;
  if (t->op.ending == DLK_OK)
    dlk_request_end(t, waits ? DLK_TIMEOUT : DLK_UNAVAILABLE);
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

/* ---- grants ---- */

static bool unwanted(const struct dlk_ticket *t) {
  return dlk_ticket_done(t) || dlk_ticket_is_abandoned(t) ||
         t->op.ending == DLK_CANCELLED || t->op.ending == DLK_CLOSED ||
         atomic_load(&t->engine->closing);
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
    DLK_TRACE(now, "engine", "grant", t->op.key, t->op.key_len,
              "fence %lld, after %s ms", (long long)t->hold->lease.fence,
              dlk_trace_ms(now - t->op.started).text);
    if (t->op.kind == DLK_OP_ACQUIRE)
      dlk_stats_put(&t->engine->stats.wait, now - t->op.started);
    if (t->engine->behind_tls)
      dlk_in_use_behind_tls();
    dlk_handoff_held(t->hold, t->queue);
    dlk_request_finish(t, NULL);
    return;
  }
  /* The grant came too late to be of use. */
  dlk_hold_give_back(t->hold);
  bool again = t->op.kind == DLK_OP_ACQUIRE && t->op.wait &&
               t->op.ending == DLK_OK && now < t->op.deadline;
  if (again && dlk_ticket_new_candidate(t)) {
    submit(t);
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

bool dlk_request_pass(struct dlk_hold *h) {
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

static void start_on_hold(struct dlk_ticket *t) {
  struct dlk_hold *h = t->hold;
  int64_t now = dlk_clock_now();
  bool ours = dlk_hold_check(h, now);
  if (!ours && t->task != DLK_TASK_GIVE_BACK) {
    int state = atomic_load(&h->state);
    bool over = t->op.kind == DLK_OP_RELEASE && /* to do it again is fine */
                (state == DLK_HOLD_RELEASED || state == DLK_HOLD_RELEASING);
    dlk_request_finish_code(t, over ? DLK_OK : DLK_LOST);
    return;
  }
  if (ours && t->op.kind == DLK_OP_RELEASE) {
    if (dlk_request_pass(h)) {
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
  submit(t);
}

/* After its end or deadline a request that changes a lease is lost, even if the
 * store did it: our release is under way, and would hit the lease's next
 * holder. */
static bool too_late(const struct dlk_ticket *t) {
  bool changes = t->op.kind == DLK_OP_EXTEND || t->op.kind == DLK_OP_DETACH ||
                 t->op.kind == DLK_OP_DOWNGRADE || t->op.kind == DLK_OP_PUBLISH;
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

static void start(struct dlk_post *post) {
  struct dlk_ticket *t = DLK_CONTAINER(post, struct dlk_ticket, start);
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
    submit(t);
}

struct dlk_ticket *dlk_request_new(struct dlk_engine *e,
                                   const struct dlk_request *r) {
  struct dlk_ticket *t = dlk_ticket_new(e, r);
  if (t) {
    t->start.run = start;
    t->cancel.run = run_cancel;
    t->timer.fire = timed_out;
    DLK_TRACE(t->op.started, "engine", "request", t->op.key, t->op.key_len,
              "%s", dlk_ticket_word(t));
  }
  return t;
}

bool dlk_request_queue_up(struct dlk_ticket *t) {
  return dlk_ticket_is(t, DLK_OP_ACQUIRE) &&
         !atomic_load(&t->engine->closing) && dlk_local_join(t, true);
}

void dlk_request_done(struct dlk_host *host, struct dlk_op *op,
                      const struct dlk_error *err) {
  struct dlk_ticket *t = (struct dlk_ticket *)(void *)op;
  struct dlk_engine *e = (struct dlk_engine *)(void *)host;
  if (err && err->code == DLK_OK)
    err = NULL;
  returned(t);
  if (dlk_ticket_makes_hold(t) && !err)
    granted(t, dlk_clock_now());
  else if (is_on_hold(t))
    on_hold_done(t, err);
  else
    dlk_request_finish(t, err);
  dlk_work_look(e);
}

void dlk_request_forget(struct dlk_ticket *t) {
  returned(t);
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
  start(&t->start);
  return true;
}

const struct dlk_request_calls dlk_request_calls = {
    .left = hold_left,
    .pass = dlk_request_pass,
    .release = release_in_background,
    .make = dlk_request_new,
    .submit = submit,
    .finish = dlk_request_finish};
