/* Detach and attach.
 *
 * The string: "1 ttl fence units cap key-length owner-length " key, 32 digits
 * of the token, owner; with 2 in place of 1 an attach keeps the owner's name.
 *
 * One call replaces the string's token by one of ours. So the first attach gets
 * the lease, and for the others it is lost. It is repeatable: the same token
 * finds itself. Given up with an unknown outcome it is undone (orphan), so that
 * the string can be attached again. */
#include <stdio.h>
#include <stdlib.h>

#include "core/digits.h"
#include "store/sql/recipe/recipe.h"

struct detached {
  bool keeps_owner;
  int64_t ttl, fence; /* ttl in us */
  uint32_t units, cap;
  const char *key, *owner; /* in the string */
  size_t key_len, owner_len;
  unsigned char token[DLK_SQL_TOKEN];
};

static struct dlk_sql_hold *hold_of(struct dlk_sql_try *t) {
  return dlk_sql_hold_of(t->op->lease);
}

static int digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                : -1;
}

static bool parse(const char *at, size_t len, struct detached *d) {
  const char *end = at + len;
  int64_t n[7];
  for (int i = 0; i < 7; i++) {
    n[i] = dlk_digits(&at, end, 18);
    if (n[i] < 0 || at == end || *at++ != ' ')
      return false;
  }
  if (n[0] < 1 || n[0] > 2 || n[1] < 1 || n[1] > DLK_MS_MAX ||
      n[3] > UINT32_MAX || n[4] > UINT32_MAX || n[5] < 1 ||
      n[5] > DLK_KEY_MAX || n[6] >= DLK_HOLDER_MAX ||
      end - at != n[5] + 2 * DLK_SQL_TOKEN + n[6])
    return false;
  *d = (struct detached){.keeps_owner = n[0] == 2,
                         .ttl = n[1],
                         .fence = n[2],
                         .units = (uint32_t)n[3],
                         .cap = (uint32_t)n[4],
                         .key = at,
                         .key_len = (size_t)n[5],
                         .owner = at + n[5] + 2 * DLK_SQL_TOKEN,
                         .owner_len = (size_t)n[6]};
  for (int i = 0; i < DLK_SQL_TOKEN; i++) {
    int high = digit(at[n[5] + 2 * i]), low = digit(at[n[5] + 2 * i + 1]);
    if (high < 0 || low < 0)
      return false;
    d->token[i] = (unsigned char)(high << 4 | low);
  }
  return true;
}

/* The hold is ours, with `rest` us left. One that is not renewed counts as one
 * that was sent for when its whole ttl was left. */
static void taken_over(struct dlk_sql_try *t, const struct dlk_sql_call *call,
                       int64_t rest) {
  struct dlk_lease *lease = t->op->lease;
  int64_t gone = lease->ttl - rest * DLK_US;
  lease->sent = call->sent;
  if (!t->op->renew && gone > 0)
    lease->sent -= gone;
  hold_of(t)->min_end = dlk_lease_deadline(lease->sent, lease->ttl);
  hold_of(t)->max_end = dlk_time_add(dlk_sql_now(t->store), rest * DLK_US);
}

static void tell_asked(struct dlk_sql_try *t, const struct dlk_sql_call *call) {
  if (dlk_sql_number(call, 0, 1, 0) != 0)
    t->store->host->revoked(t->store->host, t->op->lease);
}

/* With a span of 0 the hold's end stays. */
static void put_renewal(struct dlk_sql_try *t, struct dlk_sql_call *call) {
  struct dlk_sql_hold *h = hold_of(t);
  dlk_sql_put_span(call, t->op->renew ? dlk_sql_span(h, h->lease->ttl) : 0);
}

/* ---- detach ---- */

static void detached(struct dlk_sql_try *t, const struct dlk_sql_call *call) {
  const struct dlk_lease *lease = t->op->lease;
  struct dlk_sql_hold *h = hold_of(t);
  int64_t rest = dlk_sql_number(call, 0, 0, -1);
  tell_asked(t, call);
  if (rest < 0) {
    dlk_sql_done_code(t, DLK_LOST);
    return;
  }
  taken_over(t, call, rest);
  struct dlk_buf b = {0};
  size_t owner_len = strlen(lease->owner);
  dlk_buf_addf(&b, "%d %lld %lld %u %u %zu %zu ", t->op->names ? 2 : 1,
               (long long)(lease->ttl / DLK_US), (long long)lease->fence,
               lease->want.units, lease->want.cap, lease->key_len, owner_len);
  dlk_buf_add(&b, lease->key, lease->key_len);
  for (int i = 0; i < DLK_SQL_TOKEN; i++)
    dlk_buf_addf(&b, "%02x", h->token[i]);
  dlk_buf_add(&b, lease->owner, owner_len);
  struct dlk_value *v = b.failed ? NULL : dlk_value_string(b.data, b.len);
  dlk_buf_free(&b);
  if (v)
    dlk_sql_token_drop(h);
  dlk_sql_finish(t, v);
}

static void detach_put(struct dlk_sql_try *t, struct dlk_sql_call *call) {
  const struct dlk_lease *lease = t->op->lease;
  dlk_sql_put_key(call, t->store, lease->key, lease->key_len);
  dlk_sql_put_bytes(call, hold_of(t)->token, DLK_SQL_TOKEN);
  put_renewal(t, call);
  dlk_sql_put_number(call, 0);
}

static const struct dlk_sql_step detaching = {.statement = DLK_SQL_EXTEND,
                                              .worker = DLK_SQL_A,
                                              .put = detach_put,
                                              .answer = detached};

void dlk_sql_detach(struct dlk_sql_try *t) {
  dlk_sql_send(t, &detaching);
}

/* ---- attach ---- */

static void not_a_string(struct dlk_sql_try *t) {
  struct dlk_error err;
  t->op->key_len = 0;
  dlk_error_set(&err, DLK_INVALID,
                "this is not a string that lease:detach() gave on %s",
                t->store->conf.scheme);
  dlk_sql_done(t, &err);
}

/* The engine made the lease's key a copy of the whole string, so the key in it
 * lives as long as the lease. */
static bool fill_lease(struct dlk_sql_try *t) {
  struct dlk_lease *lease = t->op->lease;
  struct detached d;
  if (!parse(lease->key, lease->key_len, &d))
    return false;
  lease->key = d.key;
  lease->key_len = d.key_len;
  lease->ttl = d.ttl * DLK_US;
  lease->fence = d.fence;
  lease->want.units = d.units;
  lease->want.cap = d.cap;
  if (d.keeps_owner) {
    struct dlk_sql_hold *h = hold_of(t);
    memcpy(h->owner, d.owner, d.owner_len);
    h->owner[d.owner_len] = '\0';
    lease->owner = h->owner;
  }
  return true;
}

static void attach_put(struct dlk_sql_try *t, struct dlk_sql_call *call) {
  const struct dlk_lease *lease = t->op->lease;
  struct detached d = {.ttl = 0};
  (void)parse(t->op->text, t->op->text_len, &d);
  dlk_sql_put_key(call, t->store, lease->key, lease->key_len);
  dlk_sql_put_bytes(call, d.token, DLK_SQL_TOKEN);
  dlk_sql_put_bytes(call, hold_of(t)->token, DLK_SQL_TOKEN);
  put_renewal(t, call);
  dlk_sql_put_bytes(call, lease->owner, strlen(lease->owner));
}

static void attached(struct dlk_sql_try *t, const struct dlk_sql_call *call) {
  struct dlk_sql_hold *h = hold_of(t);
  int64_t rest = dlk_sql_number(call, 0, 0, -1), now = dlk_sql_now(t->store);
  if (rest >= 0) {
    taken_over(t, call, rest);
    if (t->op->renew || h->min_end > now) {
      h->granted = now;
      tell_asked(t, call);
      dlk_sql_done(t, NULL);
      return;
    }
    dlk_sql_orphan(t->store, t->op->lease, h->token, NULL);
  }
  struct dlk_error err;
  char key[DLK_QUOTED_MAX];
  dlk_error_set(&err, DLK_LOST,
                "%s: the detached lease expired, was attached, released or "
                "broken",
                dlk_quote(key, t->op->key, t->op->key_len));
  dlk_sql_done(t, &err);
}

static const struct dlk_sql_step attaching = {.statement = DLK_SQL_ATTACH,
                                              .worker = DLK_SQL_A,
                                              .put = attach_put,
                                              .answer = attached};

void dlk_sql_attach(struct dlk_sql_try *t) {
  struct dlk_sql_hold *h = hold_of(t);
  h->store = t->store;
  h->lease = t->op->lease;
  if (!fill_lease(t)) {
    not_a_string(t);
    return;
  }
  h->granted = dlk_sql_now(t->store);
  t->op->key = h->lease->key;
  t->op->key_len = h->lease->key_len;
  dlk_sql_token_draw(h);
  h->waiting = NULL;
  dlk_sql_send(t, &attaching);
}

void dlk_sql_undo_attach(struct dlk_sql_try *t) {
  struct detached d;
  if (parse(t->op->text, t->op->text_len, &d))
    dlk_sql_orphan(t->store, t->op->lease, hold_of(t)->token, d.token);
}

/* ---- prolong ---- */

static void prolong_put(struct dlk_sql_try *t, struct dlk_sql_call *call) {
  struct detached d = {.ttl = 0};
  (void)parse(t->op->text, t->op->text_len, &d);
  dlk_sql_put_key(call, t->store, d.key, d.key_len);
  dlk_sql_put_bytes(call, d.token, DLK_SQL_TOKEN);
  dlk_sql_put_span(call, t->op->ttl);
  dlk_sql_put_number(call, 0);
}

static void prolonged(struct dlk_sql_try *t, const struct dlk_sql_call *call) {
  int64_t rest = dlk_sql_number(call, 0, 0, -1);
  if (rest < 0)
    dlk_sql_done_code(t, DLK_LOST);
  else
    dlk_sql_finish(t, dlk_value_number((double)rest / 1e6));
}

static const struct dlk_sql_step prolonging = {.statement = DLK_SQL_EXTEND,
                                               .worker = DLK_SQL_A,
                                               .put = prolong_put,
                                               .answer = prolonged};

void dlk_sql_prolong(struct dlk_sql_try *t) {
  struct detached d;
  if (!parse(t->op->text, t->op->text_len, &d)) {
    not_a_string(t);
    return;
  }
  t->op->key = d.key;
  t->op->key_len = d.key_len;
  if (t->op->ttl < 0)
    t->op->ttl = d.ttl * DLK_US;
  dlk_sql_send(t, &prolonging);
}
