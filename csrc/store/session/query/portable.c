/* detach, attach and prolong, where a node can leave its session.
 *
 * A detached node hangs on a lease of its own. Beside it stands a mark, whose
 * version is in the string: an attach takes the mark away, so the string works
 * once. The mark's text is when the lease ends, by the clocks' time of day;
 * only holds without renewal go by it.
 *
 * The string: "1 ttl fence version units cap rest" and three lengths, each with
 * a blank behind, then key, name and owner. With 2 in place of 1 an attach
 * keeps the owner. rest: when its min_hold ends, in ms of the day's time; 0: it
 * has none.
 *
 * A detach is repeated until it is known (the last one counts), and so is an
 * attach: the mark may be gone by our own, and then the node is bound to this
 * session, in which nobody else claims it.
 *
 * An attach that changes the owner reads the node, and writes it anew in the
 * step that binds it, if nobody (a revoke) wrote it in between. */
#include "store/session/query/query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/digits.h"
#include "store/session/format/data.h"

enum { FORM, TTL, FENCE, VERSION, UNITS, CAP, REST, KEY, NAME, OWNER, NUMBERS };

struct detached_lease {
  int64_t number[NUMBERS];
  const char *key, *name, *owner; /* in the string, which ends with the owner */
  char path_name[DLK_SS_NAME_MAX];
  struct dlk_ss_entry entry;
};

static bool parse(const char *at, size_t len, struct detached_lease *d) {
  const char *end = at + len;
  for (int i = 0; i < NUMBERS; i++) {
    d->number[i] = dlk_digits(&at, end, 18);
    if (d->number[i] < 0 || at == end || *at++ != ' ')
      return false;
  }
  const int64_t *n = d->number;
  if (n[FORM] < 1 || n[FORM] > 2 || n[TTL] < 1 || n[TTL] > DLK_MS_MAX ||
      n[UNITS] > UINT32_MAX || n[CAP] > UINT32_MAX || n[KEY] < 1 ||
      n[KEY] > DLK_KEY_MAX || n[NAME] >= DLK_SS_NAME_MAX ||
      n[OWNER] >= DLK_HOLDER_MAX || end - at != n[KEY] + n[NAME] + n[OWNER])
    return false;
  d->key = at;
  d->name = at + n[KEY];
  d->owner = d->name + n[NAME];
  snprintf(d->path_name, sizeof d->path_name, "%.*s", (int)n[NAME], d->name);
  return dlk_ss_name_parse(d->path_name, &d->entry) && d->entry.until_ms == 0;
}

/* With the mark's text for a lease that ends `ns` from now. */
static bool ask(struct dlk_ss_query *q, const struct dlk_ss_request *given,
                int64_t ns, enum dlk_ss_purpose purpose, dlk_ss_heard *heard) {
  struct dlk_ss_request r = *given;
  char text[24];
  r.ms = dlk_to_ms(ns);
  int64_t end = dlk_ss_wall_ms() + r.ms;
  snprintf(text, sizeof text, "%lld", (long long)end);
  r.data = text;
  r.len = strlen(text);
  return r.path && dlk_ss_query_send(q, purpose, &r, heard);
}

/* ns until the mark's end. */
static int64_t left(const struct dlk_ss_reply *r) {
  char text[24];
  snprintf(text, sizeof text, "%.*s", (int)r->len, r->len ? r->data : "");
  return (strtoll(text, NULL, 10) - dlk_ss_wall_ms()) * DLK_MS;
}

/* ---- detach ---- */

static struct dlk_value *string_of(const struct dlk_ss_query *q,
                                   const struct dlk_ss_contender *n,
                                   int64_t version) {
  const struct dlk_lease *lease = q->op->lease;
  const char *name = n->path + n->lock_len + 1;
  int64_t rest = n->rest_until - dlk_ss_now(q->store);
  struct dlk_buf b = {0};
  dlk_buf_addf(
      &b, "%d %lld %lld %lld %u %u %lld %zu %zu %zu ", q->op->names ? 2 : 1,
      (long long)dlk_to_ms(lease->ttl), (long long)n->fence, (long long)version,
      lease->want.units, lease->want.cap,
      n->kept && rest > 0 ? (long long)(dlk_ss_wall_ms() + rest / DLK_MS) : 0,
      lease->key_len, strlen(name), strlen(lease->owner));
  dlk_buf_add(&b, lease->key, lease->key_len);
  dlk_buf_addf(&b, "%s%s", name, lease->owner);
  struct dlk_value *v = b.failed ? NULL : dlk_value_string(b.data, b.len);
  dlk_buf_free(&b);
  return v;
}

static void on_detached(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  struct dlk_ss_contender *n = dlk_ss_holder(q->op->lease);
  if (!n || r->rc != DLK_SS_OK) {
    if (n)
      dlk_ss_contender_vanished(n);
    dlk_ss_query_end(q, DLK_LOST, NULL);
    return;
  }
  struct dlk_lease *lease = q->op->lease;
  struct dlk_ss_session *s = n->member.session;
  struct dlk_value *v = string_of(q, n, r->stat.version);
  struct dlk_ss_data data;
  dlk_ss_data_parse(r->data, r->len, &data);
  if (data.revoked && !n->revoked)
    q->store->host->revoked(q->store->host, lease);
  if (q->op->renew)
    lease->sent = r->sent;
  n->rests = n->kept;
  dlk_ss_contender_unhold(n);
  dlk_ss_finish(n, DLK_OK);
  dlk_ss_session_freed(s);
  dlk_ss_query_finish(q, v);
}

static bool detach(struct dlk_ss_query *q) {
  const struct dlk_lease *lease = q->op->lease;
  struct dlk_ss_contender *n = dlk_ss_holder(lease);
  int64_t now = dlk_ss_now(q->store);
  int64_t ns = lease->ttl - (q->op->renew ? 0 : now - lease->sent);
  if (!n || now >= n->member.session->proof.horizon || ns <= 0) {
    dlk_ss_query_end(q, DLK_LOST, NULL);
    return true;
  }
  struct dlk_ss_request r = {.verb = DLK_SS_DETACH, .path = n->path};
  n->detaching = true;
  return ask(q, &r, ns, DLK_SS_FOR_DOWNGRADE, on_detached);
}

/* ---- the string's ---- */

/* Errors name the key in it. */
static bool is_string(struct dlk_ss_query *q, struct detached_lease *d) {
  struct dlk_ss_store *st = q->store;
  struct dlk_op *op = q->op;
  bool good = parse(op->text, op->text_len, d);
  op->key = good ? d->key : op->text;
  op->key_len = good ? (size_t)d->number[KEY] : 0; /* it may hold a token */
  if (good)
    return true;
  dlk_ss_query_detach(q);
  dlk_ss_done_text(st, op, DLK_INVALID,
                   "this is not a string that lease:detach() gave here");
  return false;
}

static const char *path_of(struct dlk_ss_query *q,
                           const struct detached_lease *d) {
  dlk_buf_clear(&q->path);
  dlk_ss_lock_path(q->store, &q->path, d->key, (size_t)d->number[KEY]);
  q->path_len = q->path.len;
  return dlk_ss_query_path(q, d->path_name);
}

static void is_lost(struct dlk_ss_query *q) {
  struct dlk_ss_store *st = q->store;
  struct dlk_op *op = q->op;
  dlk_ss_query_detach(q);
  dlk_ss_done_text(st, op, DLK_LOST,
                   "the detached lease expired, was attached, released or "
                   "broken");
}

static void on_attached(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  struct detached_lease d;
  struct dlk_op *op = q->op;
  struct dlk_lease *lease = op->lease;
  struct dlk_ss_session *s = q->member.session;
  int64_t ns = left(r), sent = r->sent;
  bool old = !op->renew && r->len > 0;
  if (r->rc == DLK_SS_VERSION) {
    dlk_ss_query_again(q);
    return;
  }
  if (r->rc != DLK_SS_OK || !parse(lease->key, lease->key_len, &d) ||
      dlk_map_get(&q->store->by_guid, d.entry.guid, DLK_SS_GUID)) {
    is_lost(q); /* of two that were repeated, the first has it */
    return;
  }
  lease->key = d.key;
  lease->key_len = (size_t)d.number[KEY];
  lease->ttl = dlk_from_ms(d.number[TTL]);
  lease->want.units = (uint32_t)d.number[UNITS];
  lease->want.cap = (uint32_t)d.number[CAP];
  if (d.number[FORM] == 2)
    lease->owner = d.owner;
  if (old && ns < lease->ttl)
    sent -= lease->ttl - ns;
  int64_t rest = d.number[REST] - dlk_ss_wall_ms();
  lease->min_hold = rest > 0 ? rest * DLK_MS : 0;
  op->key = lease->key;
  op->key_len = lease->key_len;
  dlk_ss_clock_heard(q->store, r, r->stat.mtime_ms);
  struct dlk_ss_store *st = q->store;
  dlk_ss_query_detach(q);
  dlk_ss_op_data(op)->query = NULL;
  if (!dlk_ss_adopt(s, op, &d.entry, d.number[FENCE], sent)) {
    dlk_ss_session_retire(s); /* its end takes the node */
    dlk_ss_done(st, op, DLK_UNAVAILABLE);
  }
}

/* data: the node's from now on; NULL: it stays as it is. */
static bool ask_attach(struct dlk_ss_query *q, const struct detached_lease *d,
                       const struct dlk_buf *data, int64_t seen) {
  struct dlk_ss_request r = {.verb = DLK_SS_ATTACH,
                             .path = path_of(q, d),
                             .data = data ? data->data : NULL,
                             .len = data ? data->len : 0,
                             .version = d->number[VERSION],
                             .seen = seen,
                             .attempt = q->settling};
  return r.path && dlk_ss_query_send(q, DLK_SS_FOR_DOWNGRADE, &r, on_attached);
}

/* A node that this member does not show yet is compared, too: the answer comes
 * when it does. */
static void on_seen(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  struct detached_lease d;
  struct dlk_buf data = {0};
  if (!is_string(q, &d))
    return;
  dlk_ss_data_reown(&data, r->data, r->len, q->op->lease->owner);
  if (data.failed || !ask_attach(q, &d, &data, r->stat.version))
    dlk_ss_query_end(q, DLK_UNAVAILABLE, NULL);
  dlk_buf_free(&data);
}

static bool attach(struct dlk_ss_query *q) {
  struct detached_lease d;
  if (!is_string(q, &d))
    return true;
  if (dlk_map_get(&q->store->by_guid, d.entry.guid, DLK_SS_GUID)) {
    is_lost(q); /* a lease of this store has it */
    return true;
  }
  if (d.number[FORM] == 2)
    return ask_attach(q, &d, NULL, 0);
  struct dlk_ss_request r = {.verb = DLK_SS_READ, .path = path_of(q, &d)};
  return r.path && dlk_ss_query_send(q, DLK_SS_FOR_READ, &r, on_seen);
}

static void on_prolonged(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  if (r->rc != DLK_SS_OK) {
    is_lost(q);
    return;
  }
  int64_t ns = left(r);
  if (ns < q->op->ttl)
    ns = q->op->ttl;
  dlk_ss_query_finish(
      q, dlk_value_number(ns > 0 ? (double)ns / (double)DLK_SEC : 0));
}

static bool ask_string(struct dlk_ss_query *q, enum dlk_ss_verb verb,
                       int64_t version, dlk_ss_heard *heard) {
  struct detached_lease d;
  if (!is_string(q, &d))
    return true;
  if (q->op->ttl < 0)
    q->op->ttl = dlk_from_ms(d.number[TTL]);
  struct dlk_ss_request r = {.verb = verb,
                             .path = path_of(q, &d),
                             .version = version ? version : d.number[VERSION]};
  return ask(q, &r, verb == DLK_SS_PROLONG ? q->op->ttl : 0, DLK_SS_FOR_READ,
             heard);
}

static void on_left(struct dlk_ss_query *q, const struct dlk_ss_reply *r);

/* NONODE: another one may have prolonged it in between. */
static void on_written(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  if (r->rc == DLK_SS_OK)
    on_prolonged(q, r);
  else if (!ask_string(q, DLK_SS_DETACHED, 0, on_left))
    dlk_ss_query_end(q, DLK_UNAVAILABLE, NULL);
}

/* A lease is never shortened. */
static void on_left(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  if (r->rc != DLK_SS_OK || !q->op->ttl || q->op->ttl <= left(r))
    on_prolonged(q, r);
  else if (!ask_string(q, DLK_SS_PROLONG, r->stat.version, on_written))
    dlk_ss_query_end(q, DLK_UNAVAILABLE, NULL);
}

bool dlk_ss_portable_start(struct dlk_ss_query *q) {
  return q->op->kind == DLK_OP_DETACH ? detach(q)
         : q->op->kind == DLK_OP_ATTACH
             ? attach(q)
             : ask_string(q, DLK_SS_DETACHED, 0, on_left);
}
