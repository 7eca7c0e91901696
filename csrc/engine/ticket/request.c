/* A request's way to the store and to its end; dispatch.c knows its meaning.
 *
 * At its deadline a waiting acquire ends with `timeout`, everything else with
 * `unavailable`. A cancel asks the store to take back what it left on the
 * server. If no answer comes in time, the caller is told `unavailable`, or the
 * code it asked for, and the op goes on in the background. */
#include "engine/ticket/request.h"

#include "engine/local/local_queue.h"

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

/* A detach waits until these are over. LISTEN may last, and changes nothing. */
static void count_on_hold(const struct dlk_ticket *t, int by) {
  if (t->hold && !dlk_ticket_makes_hold(t) && t->op.kind != DLK_OP_LISTEN)
    t->hold->ops += by;
}

void dlk_request_returned(struct dlk_ticket *t) {
  bool late = state_of(t) == DLK_TICKET_LATE;
  set_state(t, late ? DLK_TICKET_RETURNED : DLK_TICKET_OURS);
  dlk_list_remove(&t->link); /* dlk_work_look must follow */
  t->engine->loop.work--;
  count_on_hold(t, -1);
}

void dlk_request_submit(struct dlk_ticket *t) {
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

/* ---- a new one ---- */

struct dlk_ticket *dlk_request_new(struct dlk_engine *e,
                                   const struct dlk_request *r) {
  struct dlk_ticket *t = dlk_ticket_new(e, r);
  if (t) {
    t->cancel.run = run_cancel;
    t->timer.fire = timed_out;
    DLK_TRACE(t->op.started, "engine", "request", t->op.key, t->op.key_len,
              "%s", dlk_ticket_word(t));
  }
  return t;
}

const struct dlk_local_calls dlk_request_local_calls = {
    .make = dlk_request_new,
    .submit = dlk_request_submit,
    .finish = dlk_request_finish};
