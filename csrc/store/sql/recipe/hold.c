/* A lease that is held: release, renewal, extension, downgrade, guarded writes.
 * Its hold may be over on the server at any time; each statement says so. */
#include <stdio.h>
#include <stdlib.h>

#include "store/kit/clock.h"
#include "store/sql/recipe/recipe.h"

#define DAY_US (INT64_C(86400) * 1000000)
#define SWEEP_EVERY (3600 * DLK_SEC)

static struct dlk_sql_hold *hold_of(struct dlk_sql_try *t) {
  return dlk_sql_hold_of(t->op->lease);
}

static void put_hold(struct dlk_sql_call *call, struct dlk_sql_hold *h) {
  dlk_sql_put_key(call, h->store, h->lease->key, h->lease->key_len);
  dlk_sql_put_bytes(call, h->token, DLK_SQL_TOKEN);
}

/* ---- release ---- */

/* Keys that nobody uses go, about once an hour; one in 64 first releases does
 * it too, because programs may be short, and many. */
static void sweep(struct dlk_sql_store *s) {
  int64_t now = dlk_sql_now(s);
  uint16_t lot;
  if (s->swept == 0) {
    s->host->random(s->host, &lot, sizeof lot);
    s->swept =
        now - (lot % 64 == 0 ? SWEEP_EVERY : SWEEP_EVERY / UINT16_MAX * lot);
  }
  struct dlk_sql_worker *w = s->workers[DLK_SQL_A];
  if (now - s->swept < SWEEP_EVERY || !w)
    return;
  s->swept = now;
  struct dlk_sql_call *call =
      dlk_sql_call_new(DLK_SQL_SWEEP, dlk_sql_call_free, NULL);
  if (!call)
    return;
  dlk_sql_put_number(call, DAY_US);
  call->deadline = dlk_time_add(now, s->conf.io_timeout);
  if (call->failed)
    dlk_sql_call_free(call);
  else
    dlk_sql_worker_put(w, call);
}

static int64_t rest_of(struct dlk_sql_try *t) {
  return t->op->unused ? 0 : dlk_sql_min_left(hold_of(t));
}

static void release_put(struct dlk_sql_try *t, struct dlk_sql_call *call) {
  put_hold(call, hold_of(t));
  dlk_sql_put_span(call, rest_of(t));
}

static void released(struct dlk_sql_try *t, const struct dlk_sql_call *call) {
  struct dlk_sql_store *s = t->store;
  struct dlk_sql_hold *h = hold_of(t);
  bool held = dlk_sql_number(call, 0, 0, 0) != 0;
  bool first_did_it = t->unsure && t->op->started < h->min_end;
  if (t->placed && dlk_sql_number(call, 0, 1, 0) != 0)
    s->host->revoked(s->host, t->op->lease);
  sweep(s);
  dlk_sql_done_code(t, held || first_did_it ? DLK_OK : DLK_LOST);
}

static const struct dlk_sql_step releasing = {.statement = DLK_SQL_LEAVE,
                                              .worker = DLK_SQL_A,
                                              .put = release_put,
                                              .answer = released};

static void given_back(struct dlk_sql_try *t) {
  dlk_sql_undo_attach(t);
  dlk_sql_done(t, NULL);
}

/* `placed` says that it listened: news of a revoke are for it. */
void dlk_sql_release(struct dlk_sql_try *t) {
  struct dlk_sql_hold *h = hold_of(t);
  t->placed = h->listens;
  dlk_sql_token_drop(h);
  if (t->op->text_len > 0)
    given_back(t);
  else
    dlk_sql_send(t, &releasing);
}

/* It goes on in the background. */
void dlk_sql_release_cancel(struct dlk_sql_try *t) {
  if (rest_of(t) <= 0)
    dlk_sql_orphan(t->store, t->op->lease, hold_of(t)->token, NULL);
  dlk_sql_give_up(t);
}

/* ---- extend, listen ---- */

static void tell_asked(struct dlk_sql_try *t, const struct dlk_sql_call *call) {
  if (dlk_sql_number(call, 0, 1, 0) != 0)
    t->store->host->revoked(t->store->host, t->op->lease);
}

/* Its answer may be lost. */
static void extend_put(struct dlk_sql_try *t, struct dlk_sql_call *call) {
  struct dlk_sql_hold *h = hold_of(t);
  int64_t span = dlk_sql_span(h, t->op->ttl), now = dlk_sql_now(t->store);
  int64_t end =
      dlk_time_add(dlk_time_add(now, span), t->store->conf.io_timeout);
  h->max_end = h->max_end > end ? h->max_end : end;
  put_hold(call, h);
  dlk_sql_put_span(call, span);
  dlk_sql_put_number(call, 1);
}

static void extended(struct dlk_sql_try *t, const struct dlk_sql_call *call) {
  tell_asked(t, call);
  if (dlk_sql_number(call, 0, 0, -1) < 0) {
    dlk_sql_done_code(t, DLK_LOST);
    return;
  }
  t->op->lease->sent = call->sent;
  hold_of(t)->min_end = dlk_lease_deadline(call->sent, t->op->ttl);
  hold_of(t)->max_end =
      dlk_time_add(dlk_sql_now(t->store), dlk_sql_span(hold_of(t), t->op->ttl));
  dlk_sql_done(t, NULL);
}

static const struct dlk_sql_step extending = {.statement = DLK_SQL_EXTEND,
                                              .worker = DLK_SQL_A,
                                              .put = extend_put,
                                              .answer = extended};

void dlk_sql_extend(struct dlk_sql_try *t) {
  dlk_sql_send(t, &extending);
}

static void listen_put(struct dlk_sql_try *t, struct dlk_sql_call *call) {
  put_hold(call, hold_of(t));
  dlk_sql_put_number(call, 0);
  dlk_sql_put_number(call, 0);
}

static void listens(struct dlk_sql_try *t, const struct dlk_sql_call *call) {
  tell_asked(t, call);
  dlk_sql_done_code(t, dlk_sql_number(call, 0, 0, -1) < 0 ? DLK_LOST : DLK_OK);
}

/* On B: that listens before it runs a call, so a later revoke is heard. */
static const struct dlk_sql_step listening = {.statement = DLK_SQL_EXTEND,
                                              .worker = DLK_SQL_B,
                                              .put = listen_put,
                                              .answer = listens};

void dlk_sql_listen_op(struct dlk_sql_try *t) {
  dlk_sql_listen(t->store, &hold_of(t)->listens, true);
  dlk_sql_heed(hold_of(t));
  dlk_sql_send(t, &listening);
}

/* ---- downgrade, publish, guard ---- */

static void hold_put(struct dlk_sql_try *t, struct dlk_sql_call *call) {
  put_hold(call, hold_of(t));
}

static void downgraded(struct dlk_sql_try *t, const struct dlk_sql_call *call) {
  if (dlk_sql_number(call, 0, 0, 0) == 0)
    dlk_sql_done_code(t, DLK_LOST);
  else
    dlk_sql_finish(t, dlk_value_bool(true));
}

static const struct dlk_sql_step downgrading = {.statement = DLK_SQL_DOWNGRADE,
                                                .worker = DLK_SQL_A,
                                                .put = hold_put,
                                                .answer = downgraded};

void dlk_sql_downgrade(struct dlk_sql_try *t) {
  dlk_sql_send(t, &downgrading);
}

static void publish_put(struct dlk_sql_try *t, struct dlk_sql_call *call) {
  put_hold(call, hold_of(t));
  dlk_sql_put_bytes(call, t->op->text, t->op->text_len);
}

static const struct dlk_sql_step publishing = {.statement = DLK_SQL_PUBLISH,
                                               .worker = DLK_SQL_A,
                                               .put = publish_put,
                                               .answer = downgraded};

void dlk_sql_publish(struct dlk_sql_try *t) {
  dlk_sql_send(t, &publishing);
}

static void guard_put(struct dlk_sql_try *t, struct dlk_sql_call *call) {
  put_hold(call, hold_of(t));
  for (size_t i = 0; i < t->op->argc; i++)
    dlk_sql_put_bytes(call, t->op->argv[i], t->op->argv_len[i]);
}

static void guarded(struct dlk_sql_try *t, const struct dlk_sql_call *call) {
  int64_t rows = dlk_sql_number(call, 0, 0, -1);
  if (rows < 0)
    dlk_sql_done_code(t, DLK_LOST);
  else
    dlk_sql_finish(t, dlk_value_add(dlk_value_tuple(), dlk_value_int(rows)));
}

static const struct dlk_sql_step guarding = {.statement = DLK_SQL_GUARD,
                                             .worker = DLK_SQL_A,
                                             .lost = DLK_SQL_REPORT,
                                             .put = guard_put,
                                             .answer = guarded,
                                             .deed = "the write"};

#define WORDS_MAX 16 /* guard1, guard2 in schema.sql */

void dlk_sql_guard(struct dlk_sql_try *t) {
  struct dlk_op *op = t->op;
  struct dlk_error err = {.code = DLK_OK};
  if (op->argc > 1 + WORDS_MAX)
    dlk_error_set(&err, DLK_INVALID,
                  "a guarded statement has at most %d parameters", WORDS_MAX);
  for (size_t i = 0; i < op->argc; i++)
    if (memchr(op->argv[i], '\0', op->argv_len[i]))
      dlk_error_set(&err, DLK_INVALID,
                    "a guarded statement and its parameters have no NUL bytes; "
                    "write bytes as %s",
                    t->store->dialect->bytes);
  if (err.code != DLK_OK)
    dlk_sql_done(t, &err);
  else
    dlk_sql_send(t, &guarding);
}

/* ---- renewal ---- */

/* The holds of one call; they live until they are answered. */
struct batch {
  struct dlk_sql_store *store;
  size_t count;
  struct dlk_sql_hold *holds[];
};

/* A renewal leaves a longer time as it is, so after a step back of the server's
 * clock more is left than we count. After a step forth the hold is lost. */
static void compare_clocks(struct dlk_sql_hold *h,
                           const struct dlk_sql_call *call, int64_t rest) {
  struct dlk_sql_store *s = h->store;
  int64_t now = dlk_sql_now(s), span = dlk_sql_span(h, h->lease->ttl);
  int64_t most = h->max_end - call->sent, end = dlk_time_add(now, span);
  dlk_clock_compare(s->host, s->conf.shown, &s->clock_told, rest,
                    h->min_end - now, most > span ? most : span);
  h->max_end = h->max_end > end ? h->max_end : end;
}

static void renewal_over(struct dlk_sql_hold *h,
                         const struct dlk_sql_call *call, int64_t rest,
                         bool asked) {
  struct dlk_host *host = h->store->host;
  h->renewing = false;
  if (asked)
    host->revoked(host, h->lease);
  if (h->broken || rest == -1) {
    dlk_sql_token_drop(h);
    host->lost(host, h->lease,
               h->broken ? "it was broken by an administrator"
                         : "it expired or was broken");
  } else if (rest < 0) {
    host->renew_failed(host, h->lease);
  } else {
    compare_clocks(h, call, rest * DLK_US);
    h->min_end = dlk_lease_deadline(call->sent, h->lease->ttl);
    host->renewed(host, h->lease, call->sent);
  }
}

static void renewed(struct dlk_sql_call *call) {
  struct batch *b = call->who;
  bool good = call->verdict == DLK_SQL_GOOD;
  if (b && !call->begun)
    b->store->renews_on =
        b->store->renews_on == DLK_SQL_B ? DLK_SQL_A : DLK_SQL_B;
  for (size_t row = 0; b && good && row < call->rows; row++) {
    uint64_t at = (uint64_t)dlk_sql_number(call, row, 0, INT64_MAX);
    if (at >= b->count || !b->holds[at])
      continue;
    struct dlk_sql_hold *h = b->holds[at];
    b->holds[at] = NULL;
    renewal_over(h, call, dlk_sql_number(call, row, 1, -2),
                 dlk_sql_number(call, row, 2, 0) != 0);
  }
  for (size_t i = 0; b && i < b->count; i++)
    if (b->holds[i])
      renewal_over(b->holds[i], call, -2, false);
  dlk_sql_call_free(call);
}

static void renew_none(struct dlk_sql_store *s, struct dlk_lease *const *leases,
                       size_t count) {
  for (size_t i = 0; i < count; i++)
    s->host->renew_failed(s->host, leases[i]);
}

void dlk_sql_renew(void *store, struct dlk_lease *const *leases, size_t count) {
  struct dlk_sql_store *s = store;
  struct dlk_sql_worker *w = dlk_sql_worker_of(s, s->renews_on);
  struct batch *b = calloc(1, sizeof *b + count * sizeof *b->holds);
  struct dlk_sql_call *call =
      b && w ? dlk_sql_call_new(DLK_SQL_RENEW, renewed, b) : NULL;
  for (size_t i = 0; call && i < count; i++) {
    struct dlk_sql_hold *h = dlk_sql_hold_of(leases[i]);
    put_hold(call, h);
    dlk_sql_put_span(call, dlk_sql_span(h, leases[i]->ttl));
  }
  if (!call || call->failed) {
    if (call)
      dlk_sql_call_free(call);
    free(b);
    renew_none(s, leases, count);
    return;
  }
  call->owned = b;
  b->store = s;
  b->count = count;
  for (size_t i = 0; i < count; i++) {
    b->holds[i] = dlk_sql_hold_of(leases[i]);
    b->holds[i]->renewing = true;
  }
  call->deadline = dlk_time_add(dlk_sql_now(s), s->conf.io_timeout);
  dlk_sql_worker_put(w, call);
}
