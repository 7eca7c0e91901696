/* How a lock is taken, waited for and given up; the argument of the recipe.
 *
 * Definitions.
 *   token    16 bytes for one attempt to acquire: 8 random ones, and 8 of the
 *            client, which name the channel of its notices
 *   place    a row of the queue: its order is the time when it came
 *   claim    the time for which a grant holds the lock for a waiter that does
 *            not know of it yet: a second at most
 *   refresh  a request that keeps a place, and finds a grant
 *   notice   a message in the granting transaction; it only makes us refresh
 *   loose    an earlier request of ours may still be done (worker.c, W4)
 *
 * Invariants.
 *   I1  Each operation is one call of one function, and commits or is undone
 *       inside the server (schema.sql, R1 to R7). So no row stays locked while
 *       a client is stopped, and a call that was crossed is repeated whole. An
 *       acquire and a leave may be one bare UPDATE instead; the function is
 *       called only behind its answer that it changed nothing.
 *   I2  A hold counts from the sending of the request that was answered `got`,
 *       so it ends here before it ends on the server. A notice gives no hold.
 *   I3  A refresh never makes a place or a hold: a token that left stays away.
 *   I4  A token of unknown outcome is never asked for again. It is left, behind
 *       the end of the connection that may still carry its request, and a new
 *       token asks for its old place.
 *   I5  Notices may be lost, and an expiry tells nobody. So each waiter asks
 *       again: the first one when the holder's time is over.
 *   I6  Each op ends once, by dlk_sql_done, which drops the answer of a request
 *       that is under way. What such a request may leave is taken back before.
 *
 * What a missing answer means. NOT_DONE: asked again, after a pause, while the
 * caller waits. UNSURE:
 *
 *   acquire                             I4
 *   release, leave, extend, renew       asked again: harmless
 *   attach, detach, downgrade, publish  asked again: repeatable
 *   reads                               asked again
 *   break, revoke, guard                `unavailable`: it may have been done
 *
 * Crossings.
 *   Grant, cancel: the leave ends the hold too; `got` on its way ends the op
 *   well, and the engine gives the lease back.
 *   Grant, claim's end: the refresh is answered `gone`; a new token asks anew.
 *   Notice, answer: one more refresh.
 *   Release, its lost answer: the second finds nothing. It was the first if our
 *   deadline had not passed when we first asked.
 *   Late request of a connection that could not be ended: it works for a token
 *   that was left, and is left once more after two seconds, or ends by its ttl.
 *   Break, renewal: the renewal's answer is the loss, also if it came first. */
#include "store/sql/recipe/recipe.h"

#define CLAIM DLK_SEC
/* How long a waiter counts as alive; half of it passes before it is written
 * again. */
#define ALIVE (10 * DLK_SEC)
/* Between two refreshes where notices come. */
#define BEAT_FIRST DLK_SEC
#define BEAT (2 * DLK_SEC)
#define OPENS (300 * DLK_MS) /* how long B may take before */
#define POLL_MAX (250 * DLK_MS)

static const struct dlk_sql_step acquiring, leaving;
static void forsake(struct dlk_sql_try *t);

static struct dlk_sql_hold *hold_of(struct dlk_sql_try *t) {
  return dlk_sql_hold_of(t->op->lease);
}

/* ---- waiting ---- */

/* Without notices it asks often, and less so the longer it waits and the
 * farther behind it is. */
static int64_t beat_of(struct dlk_sql_try *t) {
  int64_t waited = dlk_sql_now(t->store) - t->since, beat;
  if (t->store->hears == 1)
    return t->rank == 0 ? BEAT_FIRST : BEAT;
  beat = waited < DLK_SEC ? 10 : waited < 10 * DLK_SEC ? 25 : 50;
  beat *= DLK_MS * (t->rank < 25 ? t->rank + 1 : 25);
  return beat < POLL_MAX ? beat : POLL_MAX;
}

/* I5 */
static void wait_on(struct dlk_sql_try *t, int64_t rest) {
  struct dlk_host *host = t->store->host;
  uint16_t jitter;
  host->random(host, &jitter, sizeof jitter);
  int64_t beat = beat_of(t);
  beat -= beat / 4 * jitter / UINT16_MAX;
  int64_t ends = rest >= 0 ? rest * DLK_US + DLK_MS : DLK_FOREVER;
  if (t->rank == 0 && ends < beat)
    beat = ends;
  dlk_sql_send_at(t, DLK_SQL_WAITING, dlk_sql_now(t->store) + beat);
}

static void refresh(struct dlk_sql_try *t) {
  if (t->state == DLK_SQL_WAITING)
    dlk_sql_send(t, &acquiring);
  else
    t->news = true;
}

/* ---- the answers ---- */

static void note_holder(struct dlk_sql_try *t,
                        const struct dlk_sql_call *call) {
  size_t n;
  const char *owner = dlk_sql_bytes(call, 0, 5, &n);
  if (n >= sizeof t->op->holder)
    n = sizeof t->op->holder - 1;
  memcpy(t->op->holder, owner ? owner : "", owner ? n : 0);
  t->op->holder[owner ? n : 0] = '\0';
}

static void granted(struct dlk_sql_try *t, const struct dlk_sql_call *call) {
  struct dlk_lease *lease = t->op->lease;
  struct dlk_sql_hold *h = hold_of(t);
  lease->fence = dlk_sql_number(call, 0, 1, 0);
  lease->sent = call->sent;
  lease->claim = 0;
  h->granted = call->sent;
  h->min_end = dlk_lease_deadline(call->sent, lease->ttl);
  h->max_end = dlk_time_add(dlk_sql_now(t->store), dlk_sql_span(h, lease->ttl));
  DLK_TRACE(dlk_sql_now(t->store), t->store->dialect->name, "grant", lease->key,
            lease->key_len, "fence %lld, token ..%02x%02x",
            (long long)lease->fence, h->token[6], h->token[7]);
  dlk_sql_done(t, NULL);
}

static void anew(struct dlk_sql_try *t) {
  t->placed = t->unsure = false;
  dlk_sql_token_draw(hold_of(t));
  if (t->op->ending != DLK_OK)
    dlk_sql_give_up(t);
  else
    dlk_sql_send(t, &acquiring);
}

static void queued(struct dlk_sql_try *t, const struct dlk_sql_call *call) {
  bool news = t->news;
  t->placed = true;
  t->place = dlk_sql_number(call, 0, 2, 0);
  t->rank = dlk_sql_number(call, 0, 3, 0);
  note_holder(t, call);
  dlk_sql_listen(t->store, &t->listens, true);
  if (t->op->ending != DLK_OK) {
    t->state = DLK_SQL_LEAVING;
    dlk_sql_send(t, &leaving);
  } else if (news) {
    dlk_sql_send(t, &acquiring);
  } else {
    wait_on(t, dlk_sql_number(call, 0, 4, -1));
  }
}

/* B opens before the first wait queues up: else a waiter whose process ends
 * soon counts as alive for longer. */
static void occupied(struct dlk_sql_try *t) {
  if (t->op->ending != DLK_OK || !t->op->wait) {
    dlk_sql_done_code(t, t->op->ending != DLK_OK ? t->op->ending : DLK_BUSY);
    return;
  }
  t->joins = true;
  dlk_sql_listen(t->store, &t->listens, true);
  if (t->store->hears >= 0)
    dlk_sql_send(t, &acquiring);
  else
    dlk_sql_send_at(t, DLK_SQL_WAITING, dlk_sql_now(t->store) + OPENS);
}

static void acquired(struct dlk_sql_try *t, const struct dlk_sql_call *call) {
  struct dlk_error err;
  switch (dlk_sql_number(call, 0, 0, -1)) {
  case 0:
    granted(t, call);
    return;
  case 1:
    note_holder(t, call);
    occupied(t);
    return;
  case 2:
    queued(t, call);
    return;
  case 3:
    anew(t);
    return;
  case 4:
    dlk_error_other_limit(&err, t->op->key, t->op->key_len);
    dlk_sql_done(t, &err);
    return;
  default:
    dlk_error_set(&err, DLK_UNAVAILABLE,
                  "'%s': an answer that dlock does not "
                  "understand",
                  t->store->conf.shown);
    dlk_sql_orphan(t->store, t->op->lease, hold_of(t)->token, NULL);
    dlk_sql_done(t, &err);
  }
}

static void acquire_put(struct dlk_sql_try *t, struct dlk_sql_call *call) {
  const struct dlk_lease *l = t->op->lease;
  int64_t claim = l->ttl < CLAIM ? l->ttl : CLAIM;
  dlk_sql_put_key(call, t->store, l->key, l->key_len);
  dlk_sql_put_bytes(call, hold_of(t)->token, DLK_SQL_TOKEN);
  dlk_sql_put_span(call, l->ttl > l->min_hold ? l->ttl : l->min_hold);
  dlk_sql_put_number(call, l->want.units);
  dlk_sql_put_number(call, l->want.cap);
  dlk_sql_put_number(call, !t->joins ? 0 : t->placed ? 2 : 1);
  dlk_sql_put_span(call, claim);
  dlk_sql_put_span(call, ALIVE);
  dlk_sql_put_number(call, t->store->hears == 1);
  dlk_sql_put_number(call, t->place);
  dlk_sql_put_bytes(call, l->owner ? l->owner : "",
                    l->owner ? strlen(l->owner) : 0);
  if (l->value)
    dlk_sql_put_bytes(call, l->value, l->value_len);
  else
    dlk_sql_put_null(call);
}

static const struct dlk_sql_step acquiring = {.statement = DLK_SQL_ACQUIRE,
                                              .worker = DLK_SQL_A,
                                              .lost = DLK_SQL_NEW_TOKEN,
                                              .put = acquire_put,
                                              .answer = acquired,
                                              .anew = forsake,
                                              .hint = refresh};

/* ---- leaving ---- */

static void left(struct dlk_sql_try *t, const struct dlk_sql_call *call) {
  (void)call;
  dlk_sql_give_up(t);
}

static void leave_put(struct dlk_sql_try *t, struct dlk_sql_call *call) {
  dlk_sql_put_key(call, t->store, t->op->lease->key, t->op->lease->key_len);
  dlk_sql_put_bytes(call, hold_of(t)->token, DLK_SQL_TOKEN);
  dlk_sql_put_number(call, 0);
}

static const struct dlk_sql_step leaving = {.statement = DLK_SQL_LEAVE,
                                            .worker = DLK_SQL_A,
                                            .lost = DLK_SQL_NEW_TOKEN,
                                            .put = leave_put,
                                            .answer = left,
                                            .anew = forsake};

/* I4. The orphan's leave is on its way before the new token asks. */
static void forsake(struct dlk_sql_try *t) {
  struct dlk_error err = {.code = DLK_UNAVAILABLE};
  dlk_sql_orphan(t->store, t->op->lease, hold_of(t)->token, NULL);
  if (t->state != DLK_SQL_LEAVING && t->op->ending == DLK_OK) {
    anew(t);
    return;
  }
  if (t->trouble)
    err = *t->trouble;
  dlk_sql_done(t, &err);
}

/* ---- the way in, and out ---- */

void dlk_sql_acquire(struct dlk_sql_try *t) {
  struct dlk_sql_hold *h = hold_of(t);
  h->store = t->store;
  h->lease = t->op->lease;
  h->waiting = t;
  t->since = dlk_sql_now(t->store);
  t->joins = t->op->wait && t->store->hears >= 0;
  dlk_sql_token_draw(h);
  dlk_sql_send(t, &acquiring);
}

void dlk_sql_acquire_cancel(struct dlk_sql_try *t) {
  struct dlk_sql_worker *w = t->store->workers[DLK_SQL_A];
  if (t->state == DLK_SQL_LEAVING)
    return;
  if (t->call) {
    if (!dlk_sql_worker_withdraw(w, t->call))
      return; /* its answer ends the op */
    t->call = NULL;
  }
  if (!t->placed) {
    dlk_sql_give_up(t);
    return;
  }
  t->state = DLK_SQL_LEAVING;
  dlk_sql_send(t, &leaving);
}
