/* One operation under way: its requests, missing answers, and its end. */
#include <stdio.h>

#include "store/sql/recipe/recipe.h"

#define PAUSE (20 * DLK_MS) /* between attempts, doubling */
#define PAUSE_MAX (500 * DLK_MS)

/* ---- the end ---- */

/* The caller is told; the answer, if any comes, is dropped. */
void dlk_sql_done(struct dlk_sql_try *t, const struct dlk_error *err) {
  struct dlk_sql_store *s = t->store;
  struct dlk_op *op = t->op;
  s->host->timer_clear(s->host, &t->timer);
  if (t->call) {
    t->call->who = NULL;
    t->call = NULL;
  }
  dlk_sql_listen(s, &t->listens, false);
  dlk_list_remove(&t->entry);
  struct dlk_sql_hold *h = op->lease ? dlk_sql_hold_of(op->lease) : NULL;
  bool gains = op->kind == DLK_OP_ACQUIRE || op->kind == DLK_OP_ATTACH;
  enum dlk_code code = err ? err->code : DLK_OK;
  if (h && h->waiting == t)
    h->waiting = NULL;
  if (h && code != DLK_OK && (gains || code == DLK_LOST))
    dlk_sql_token_drop(h);
  const struct dlk_error *trouble = t->trouble;
  t->trouble = NULL;
  s->host->done(s->host, op, err && err->code != DLK_OK ? err : NULL);
  dlk_error_drop(&trouble);
}

void dlk_sql_done_code(struct dlk_sql_try *t, enum dlk_code code) {
  struct dlk_error err = {.code = code};
  dlk_sql_done(t, &err);
}

void dlk_sql_finish(struct dlk_sql_try *t, struct dlk_value *v) {
  struct dlk_error err;
  t->op->result = v;
  if (v) {
    dlk_sql_done(t, NULL);
    return;
  }
  dlk_error_set(&err, DLK_UNAVAILABLE, "out of memory");
  dlk_sql_done(t, &err);
}

void dlk_sql_give_up(struct dlk_sql_try *t) {
  enum dlk_code ending = t->op->ending;
  struct dlk_error err;
  if (t->step && t->step->lost == DLK_SQL_REPORT && t->unsure) {
    dlk_error_set(&err, DLK_UNAVAILABLE,
                  "'%s': no answer came; %s may have been done",
                  t->store->conf.shown, t->step->deed);
    dlk_sql_done(t, &err);
  } else if (t->trouble &&
             (ending == DLK_TIMEOUT || ending == DLK_UNAVAILABLE)) {
    dlk_sql_done(t, t->trouble);
  } else if (ending == DLK_TIMEOUT && !t->answered) {
    dlk_error_set(&err, DLK_UNAVAILABLE, "'%s': it does not answer",
                  t->store->conf.shown);
    dlk_sql_done(t, &err);
  } else {
    dlk_sql_done_code(t, ending == DLK_OK ? DLK_UNAVAILABLE : ending);
  }
}

/* ---- requests ---- */

static void again(struct dlk_timer *timer, int64_t now) {
  struct dlk_sql_try *t = DLK_CONTAINER(timer, struct dlk_sql_try, timer);
  (void)now;
  dlk_sql_send(t, t->step);
}

void dlk_sql_send_at(struct dlk_sql_try *t, enum dlk_sql_state state,
                     int64_t at) {
  t->state = state;
  t->timer.fire = again;
  t->store->host->timer_set(t->store->host, &t->timer, at);
}

static void pause_try(struct dlk_sql_try *t) {
  t->pause = t->pause ? 2 * t->pause : PAUSE;
  t->pause = t->pause < PAUSE_MAX ? t->pause : PAUSE_MAX;
  dlk_sql_send_at(t, DLK_SQL_PAUSED, dlk_sql_now(t->store) + t->pause);
}

/* The table of what a missing answer means (acquire.c). */
static void missing(struct dlk_sql_try *t, const struct dlk_sql_call *call) {
  bool unsure = call->verdict == DLK_SQL_UNSURE;
  bool leaves = t->state == DLK_SQL_LEAVING;
  if (call->err.code != DLK_OK) {
    dlk_error_drop(&t->trouble);
    t->trouble = dlk_error_keep(&call->err);
  }
  t->unsure = t->unsure || unsure;
  if (leaves || (t->step->lost == DLK_SQL_NEW_TOKEN && unsure)) {
    t->step->anew(t);
  } else if (t->op->ending != DLK_OK ||
             (unsure && t->step->lost == DLK_SQL_REPORT)) {
    dlk_sql_give_up(t);
  } else {
    pause_try(t);
  }
}

/* What the statements are called in the trace. */
static const char *word_of(enum dlk_sql_statement statement) {
  static const char *const words[] = {
      [DLK_SQL_PING] = "ping",           [DLK_SQL_ACQUIRE] = "acquire",
      [DLK_SQL_LEAVE] = "leave",         [DLK_SQL_EXTEND] = "extend",
      [DLK_SQL_RENEW] = "renew",         [DLK_SQL_ATTACH] = "attach",
      [DLK_SQL_BREAK] = "break",         [DLK_SQL_REVOKE] = "revoke",
      [DLK_SQL_DOWNGRADE] = "downgrade", [DLK_SQL_LOOK] = "look",
      [DLK_SQL_INSPECT] = "inspect",     [DLK_SQL_LIST] = "list",
      [DLK_SQL_GUARD] = "guard",         [DLK_SQL_SWEEP] = "sweep",
      [DLK_SQL_PUBLISH] = "publish"};
  return words[statement];
}

static void trace_answer(const struct dlk_sql_try *t,
                         const struct dlk_sql_call *call) {
  static const char *const verdicts[] = {"good", "not done", "unsure",
                                         "refused", "crossed"};
  int64_t now = dlk_sql_now(t->store);
  dlk_trace_line(now, t->store->dialect->name, "answer", t->op->key,
                 t->op->key_len, "%s %s, after %s ms", word_of(call->statement),
                 verdicts[call->verdict],
                 dlk_trace_ms(call->sent ? now - call->sent : 0).text);
}

static void answered(struct dlk_sql_call *call) {
  struct dlk_sql_try *t = call->who;
  if (t) {
    t->call = NULL;
    if (DLK_TRACING)
      trace_answer(t, call);
    if (call->verdict == DLK_SQL_GOOD) {
      dlk_error_drop(&t->trouble);
      t->answered = true;
      t->pause = 0;
      t->step->answer(t, call);
    } else if (call->verdict == DLK_SQL_REFUSED) {
      if (t->placed && t->op->kind == DLK_OP_ACQUIRE)
        dlk_sql_orphan(t->store, t->op->lease,
                       dlk_sql_hold_of(t->op->lease)->token, NULL);
      dlk_sql_done(t, &call->err);
    } else {
      missing(t, call);
    }
  }
  dlk_sql_call_free(call);
}

void dlk_sql_send(struct dlk_sql_try *t, const struct dlk_sql_step *step) {
  struct dlk_sql_store *s = t->store;
  struct dlk_error err;
  s->host->timer_clear(s->host, &t->timer);
  t->step = step;
  t->news = false;
  if (t->state != DLK_SQL_LEAVING)
    t->state = DLK_SQL_ASKING;
  struct dlk_sql_worker *w = dlk_sql_worker_of(s, step->worker);
  struct dlk_sql_call *call =
      w ? dlk_sql_call_new(step->statement, answered, t) : NULL;
  if (call && step->put)
    step->put(t, call);
  if (!call || call->failed) {
    if (call)
      dlk_sql_call_free(call);
    dlk_error_set(&err, DLK_UNAVAILABLE, "'%s': no memory or no thread",
                  s->conf.shown);
    dlk_sql_done(t, &err);
    return;
  }
  call->deadline = dlk_time_add(dlk_sql_now(s), s->conf.io_timeout);
  t->call = call;
  DLK_TRACE(dlk_sql_now(s), s->dialect->name, "send", t->op->key,
            t->op->key_len, "%s", word_of(step->statement));
  dlk_sql_worker_put(w, call);
}
