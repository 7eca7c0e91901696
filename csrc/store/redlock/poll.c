/* Operations that make no hold. Each asks all nodes, or those with a vote or a
 * part of the string, and ends as soon as their answers decide it:
 *
 *   release, extend, listen, ping   q nodes did it
 *   detach, prolong, break, revoke   the same, and all have answered or the
 *             time is over
 *   locked    q nodes have a holder, or N - q + 1 have none
 *   change    N - q + 1 nodes do not have that holder
 *   inspect   the hold that most nodes show, if the silent ones may make it q
 *   list      a page of each node, until N - q + 1 are walked: one of them has
 *             each hold
 *
 * I1 A slow node gets its request all the same. Its answer changes its vote,
 *    and nothing else.
 * I2 A vote is lost for its hold when a node says so. A renewal of it that is
 *    under way ends by itself (hold.c). */
#include "store/redlock/poll.h"

#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "store/redlock/hold.h"
#include "store/redlock/parts.h"

struct dlk_redlock_poll {
  struct dlk_redlock *s;
  struct dlk_op *op;             /* NULL: it was told */
  struct dlk_redlock_hold *hold; /* that it is about, or NULL */
  unsigned left, yes, lost, held;
  bool sending, over; /* over: with q answers no others are waited for */
  int64_t started, ends[DLK_REDLOCK_NODES]; /* PROLONG: as the nodes say */
  struct dlk_redlock_ask *asks[DLK_REDLOCK_NODES];
  struct dlk_value *shown[DLK_REDLOCK_NODES]; /* their results */
  struct dlk_redlock_failures failures;
  struct dlk_timer timer;
  struct dlk_list entry;
  /* PROLONG: the detached lease; LIST: the nodes' cursors, or nothing. */
  struct dlk_redlock_part string;
  size_t key_len;
  char text[]; /* copies of the key and of the string */
};

typedef struct dlk_redlock_poll poll;

void dlk_redlock_polls_stop(struct dlk_redlock *s) {
  for (struct dlk_list *l = s->polls.next; l != &s->polls; l = l->next)
    s->host->timer_clear(s->host, &DLK_CONTAINER(l, poll, entry)->timer);
}

static void free_poll(poll *p) {
  dlk_list_remove(&p->entry);
  for (unsigned i = 0; i < DLK_REDLOCK_NODES; i++)
    dlk_value_free(p->shown[i]);
  free(p);
}

void dlk_redlock_polls_free(struct dlk_redlock *s) {
  while (!dlk_list_empty(&s->polls))
    free_poll(DLK_CONTAINER(s->polls.next, poll, entry));
}

/* ---- answers ---- */

static void tell(poll *p, struct dlk_value *result,
                 const struct dlk_error *err) {
  struct dlk_op *op = p->op;
  p->op = NULL;
  ((struct dlk_redlock_op *)op->data)->poll = NULL;
  p->s->host->timer_clear(p->s->host, &p->timer);
  p->sending = true;
  for (unsigned i = 0; i < p->s->n; i++)
    dlk_redlock_ask_cancel(p->asks[i]);
  op->result = result;
  p->s->host->done(p->s->host, op, err);
  p->sending = false; /* an answer meanwhile does not free it */
}

static void fail(poll *p, enum dlk_code code) {
  struct dlk_error err = {.code = code};
  char key[DLK_QUOTED_MAX];
  const char *why = strstr(p->failures.error.text, ": ");
  unsigned open = p->over || p->op->ending != DLK_OK ? 0 : p->left;
  if (code == DLK_UNAVAILABLE)
    dlk_error_set(&err, dlk_redlock_failure(p->s, &p->failures),
                  "%s: %u of %u nodes failed, %u are needed%s",
                  dlk_quote(key, p->op->key, p->op->key_len),
                  p->s->n - p->yes - open, p->s->n, p->s->q,
                  p->failures.count > 0 && why ? why : "");
  tell(p, NULL, &err);
}

/* The fence of the first holder; 0: none, -1: a holder without one. */
static int64_t fence_of(const struct dlk_value *shown) {
  const struct dlk_value *v =
      shown && shown->kind == DLK_VALUE_MAP ? shown->u.children.first : NULL;
  while (v && strcmp(v->name, "holders") != 0)
    v = v->next;
  if (!v || !v->u.children.first)
    return 0;
  for (v = v->u.children.first->u.children.first; v; v = v->next)
    if (strcmp(v->name, "fence") == 0)
      return v->u.integer;
  return -1;
}

static struct dlk_value *inspected(poll *p) {
  unsigned most = 0, at = 0, n = p->s->n;
  for (unsigned i = 0; i < n; i++) {
    unsigned same = 0;
    int64_t fence = fence_of(p->shown[i]);
    for (unsigned j = 0; fence != 0 && j < n; j++)
      same += fence_of(p->shown[j]) == fence;
    at = same > most ? i : at;
    most = same > most ? same : most;
  }
  if (most == 0 || most + (n - p->yes) < p->s->q)
    return dlk_value_nil();
  struct dlk_value *v = p->shown[at];
  p->shown[at] = NULL;
  return v;
}

/* The string of the votes' strings (parts.h), to which these belong now. */
static struct dlk_value *detached(poll *p) {
  struct dlk_redlock_hold *h = p->hold;
  struct dlk_buf b = {0};
  for (unsigned i = 0; i < p->s->n; i++)
    if (p->shown[i])
      dlk_redlock_parts_add(&b, p->shown[i]->u.string.data,
                            p->shown[i]->u.string.len);
    else
      dlk_redlock_parts_add(&b, NULL, 0);
  struct dlk_value *v = b.failed ? NULL : dlk_value_string(b.data, b.len);
  dlk_buf_free(&b);
  if (!v || !h || !h->lease)
    return v;
  for (unsigned i = 0; i < p->s->n; i++)
    if (p->shown[i] && h->votes[i])
      dlk_redlock_take(h->votes[i]);
  dlk_redlock_leave(h, NULL);
  return v;
}

/* Moves the page's keys that `to` has not. */
static struct dlk_value *collect(struct dlk_value *to, struct dlk_value *page) {
  struct dlk_value *keys = page->u.children.first, *next;
  struct dlk_value *key = keys->u.children.first;
  keys->u.children.first = keys->u.children.last = NULL;
  for (; key; key = next) {
    const struct dlk_value *v = to ? to->u.children.first : NULL;
    while (v && (v->u.string.len != key->u.string.len ||
                 memcmp(v->u.string.data, key->u.string.data,
                        key->u.string.len) != 0))
      v = v->next;
    next = key->next;
    key->next = NULL;
    if (v)
      dlk_value_free(key);
    else
      to = dlk_value_add(to, key);
  }
  return to;
}

/* The part of the string for a node; len 0: none. */
static struct dlk_redlock_part part_of(const poll *p, unsigned i) {
  if (p->string.len == 0)
    return p->string;
  return dlk_redlock_part(p->string.text, p->string.len, p->s->n, i);
}

/* A node's cursor; of one that was walked. */
static bool is_end(struct dlk_redlock_part cursor) {
  return cursor.len == 1 && cursor.text[0] == '-';
}

/* A silent node's cursor stays. */
static struct dlk_value *listed(poll *p) {
  struct dlk_value *keys = dlk_value_list(), *v;
  struct dlk_buf b = {0};
  unsigned walked = 0;
  for (unsigned i = 0; i < p->s->n; i++) {
    struct dlk_redlock_part cursor = part_of(p, i);
    if (p->shown[i]) {
      const struct dlk_value *next = p->shown[i]->u.children.first->next;
      keys = collect(keys, p->shown[i]);
      cursor = next->kind == DLK_VALUE_STRING
                   ? (struct dlk_redlock_part){next->u.string.data,
                                               next->u.string.len}
                   : (struct dlk_redlock_part){"-", 1};
    }
    walked += is_end(cursor);
    dlk_redlock_parts_add(&b, cursor.text, cursor.len);
  }
  v = dlk_value_add(dlk_value_tuple(), keys);
  if (walked > p->s->n - p->s->q)
    v = dlk_value_add(v, dlk_value_nil());
  else
    v = dlk_value_add(v, b.failed ? NULL : dlk_value_string(b.data, b.len));
  dlk_buf_free(&b);
  return v;
}

static struct dlk_value *result_of(poll *p) {
  int64_t now = dlk_redlock_now(p->s);
  switch (p->op->kind) {
  case DLK_OP_INSPECT:
    return inspected(p);
  case DLK_OP_LOCKED:
    return dlk_value_bool(p->held > 0 && p->held + p->s->n - p->yes >= p->s->q);
  case DLK_OP_PING:
    return dlk_value_number((double)(now - p->started) / (double)DLK_SEC);
  case DLK_OP_DETACH:
    return detached(p);
  case DLK_OP_LIST:
    return listed(p);
  case DLK_OP_PROLONG:
    now = dlk_redlock_deadline(p->s->q, p->ends, p->s->n) - p->started;
    return dlk_value_number((double)now / (double)DLK_SEC);
  default:
    return dlk_value_bool(true);
  }
}

/* What a node does not hear in time stands there for a whole ttl. */
static bool waits_for_all(enum dlk_op_kind kind) {
  return kind == DLK_OP_DETACH || kind == DLK_OP_PROLONG ||
         kind == DLK_OP_BREAK || kind == DLK_OP_REVOKE ||
         kind == DLK_OP_INSPECT || kind == DLK_OP_LOCKED;
}

/* Enough nodes did it. */
static bool is_done(const poll *p) {
  unsigned free_nodes = p->yes - p->held, minority = p->s->n - p->s->q;
  bool lists = p->op->kind == DLK_OP_LIST;
  bool enough = lists ? p->yes > minority : p->yes >= p->s->q;
  switch (p->op->kind) {
  case DLK_OP_CHANGE:
    return p->yes > minority;
  case DLK_OP_LOCKED:
    if (p->held >= p->s->q || free_nodes > minority)
      return true;
    /* fall through */
  default:
    return enough && (p->left == 0 || p->over || !waits_for_all(p->op->kind));
  }
}

static void decide(poll *p) {
  enum dlk_op_kind kind = p->op->kind;
  bool votes = p->hold || kind == DLK_OP_PROLONG;
  if (is_done(p)) {
    bool shows = !p->hold || kind == DLK_OP_DETACH;
    struct dlk_value *v = shows ? result_of(p) : NULL;
    if (kind == DLK_OP_EXTEND && p->op->lease)
      p->op->lease->sent = dlk_redlock_sent(p->hold, p->op->ttl);
    if (v || !shows)
      tell(p, v, NULL);
    else
      fail(p, DLK_UNAVAILABLE);
    return;
  }
  bool ends = p->left == 0 || p->op->ending != DLK_OK;
  if (!ends && (!votes || p->yes + p->left >= p->s->q))
    return;
  if (votes && p->yes + p->failures.count + p->left < p->s->q)
    fail(p, DLK_LOST);
  else
    fail(p, p->op->ending != DLK_OK ? p->op->ending : DLK_UNAVAILABLE);
}

static void look(poll *p) {
  if (p->sending || p->s->stopping)
    return;
  if (p->op)
    decide(p);
  if (!p->op && p->left == 0) {
    if (p->hold)
      dlk_redlock_hold_unref(p->hold);
    free_poll(p);
  }
}

/* PROLONG: the node's store found the key in the string. Messages name it. */
static void name_key(poll *p, const struct dlk_op *asked) {
  if (!p->op || p->op->kind != DLK_OP_PROLONG || asked->key_len == 0)
    return;
  p->op->key = p->op->text + (asked->key - p->string.text);
  p->op->key_len = asked->key_len;
}

static void answered(struct dlk_redlock_ask *a, const struct dlk_error *err) {
  poll *p = a->owner;
  name_key(p, &a->op);
  unsigned i = a->node->number;
  struct dlk_redlock_vote *v = a->vote;
  p->asks[i] = NULL;
  p->left--;
  if (!err) {
    p->yes++;
    p->shown[i] = a->op.result;
    a->op.result = NULL;
    if (a->op.kind == DLK_OP_EXTEND) {
      if (!v->renewing)
        v->lease.ttl = a->op.ttl;
      v->end = dlk_lease_deadline(v->lease.sent, a->op.ttl);
    } else if (a->op.kind == DLK_OP_PROLONG) {
      p->ends[i] =
          p->started + (int64_t)(p->shown[i]->u.number * (double)DLK_SEC);
    } else if (a->op.kind == DLK_OP_LOCKED && p->shown[i]->u.boolean) {
      p->held++;
      if (p->op)
        memcpy(p->op->holder, a->op.holder, sizeof a->op.holder);
    }
  } else if (err->code == DLK_LOST) {
    p->lost++;
    if (v && a->op.kind != DLK_OP_RELEASE)
      dlk_redlock_drop(v, "it had expired or was broken"); /* I2 */
  } else {
    dlk_redlock_failed(&p->failures, err);
  }
  if (v)
    dlk_redlock_vote_unref(v);
  look(p);
}

/* ---- questions ---- */

static void on_timer(struct dlk_timer *timer, int64_t now) {
  poll *p = DLK_CONTAINER(timer, poll, timer);
  (void)now;
  p->over = true;
  look(p);
}

/* NULL: out of memory, and the op has ended. */
static poll *new_poll(struct dlk_redlock *s, struct dlk_op *op) {
  poll *p = calloc(1, sizeof *p + op->key_len + op->text_len + 1);
  if (!p) {
    struct dlk_error err;
    dlk_error_set(&err, DLK_UNAVAILABLE, "out of memory");
    s->host->done(s->host, op, &err);
    return NULL;
  }
  p->s = s;
  p->op = op;
  p->key_len = op->key_len;
  p->string = (struct dlk_redlock_part){p->text + op->key_len, op->text_len};
  if (op->key_len > 0)
    memcpy(p->text, op->key, op->key_len);
  if (op->text_len > 0)
    memcpy(p->text + op->key_len, op->text, op->text_len);
  p->timer.fire = on_timer;
  p->started = dlk_redlock_now(s);
  dlk_list_append(&s->polls, &p->entry);
  ((struct dlk_redlock_op *)op->data)->poll = p;
  return p;
}

/* False: out of memory, or the node has no part, or was walked. */
static bool ask(poll *p, unsigned i, struct dlk_redlock_vote *v) {
  const struct dlk_op *op = p->op;
  struct dlk_redlock_part part = part_of(p, i);
  if (op->kind == DLK_OP_LIST)
    p->yes += is_end(part);
  if (op->kind == DLK_OP_PROLONG ? part.len == 0 : is_end(part))
    return false;
  struct dlk_redlock_ask *a =
      dlk_redlock_ask_new(&p->s->nodes[i], op->kind, p->text, p->key_len);
  if (!a) {
    dlk_redlock_failed(&p->failures, NULL);
    return false;
  }
  a->owner = p;
  a->answer = answered;
  a->op.names = op->names;
  a->op.renew = op->renew;
  a->op.unused = op->unused;
  a->op.ttl = op->ttl;
  a->op.fence = op->fence;
  a->op.limit = op->limit;
  a->op.text = part.text;
  a->op.text_len = part.len;
  if (v) {
    a->vote = v;
    a->op.lease = &v->lease;
    v->refs++;
  }
  p->asks[i] = a;
  p->left++;
  dlk_redlock_ask_send(a);
  if (p->asks[i])
    name_key(p, &a->op);
  return true;
}

/* The answer to an extension may be lost, so the shorter of both times counts
 * until then. A lease that is released has no votes from now on. */
static void ask_votes(poll *p) {
  struct dlk_redlock_hold *h = p->hold;
  struct dlk_redlock_vote *votes[DLK_REDLOCK_NODES] = {NULL};
  enum dlk_op_kind kind = p->op->kind;
  h->refs++;
  for (unsigned i = 0; i < p->s->n; i++) {
    votes[i] = h->votes[i] && !h->votes[i]->ask ? h->votes[i] : NULL;
    if (!votes[i])
      continue;
    votes[i]->refs++;
    if (kind == DLK_OP_RELEASE)
      dlk_redlock_take(votes[i]);
  }
  if (kind == DLK_OP_RELEASE)
    dlk_redlock_leave(h, NULL);
  for (unsigned i = 0; i < p->s->n; i++) {
    if (!votes[i])
      continue;
    if (kind == DLK_OP_EXTEND) {
      int64_t at = dlk_lease_deadline(p->started, p->op->ttl);
      votes[i]->cut = p->started;
      if (at < votes[i]->end)
        votes[i]->end = at;
    }
    if (ask(p, i, votes[i]) || kind != DLK_OP_RELEASE)
      dlk_redlock_vote_unref(votes[i]); /* else its node still knows it */
  }
}

void dlk_redlock_poll(struct dlk_redlock *s, struct dlk_op *op) {
  struct dlk_error err = {.code = DLK_LOST};
  struct dlk_redlock_hold *h =
      op->lease ? dlk_redlock_hold_of(op->lease) : NULL;
  if (op->kind == DLK_OP_LIST && op->text_len > 0 &&
      !dlk_redlock_part(op->text, op->text_len, s->n, 0).text)
    err.code = DLK_INVALID; /* a cursor comes from outside */
  else if (op->kind == DLK_OP_PROLONG)
    err.code = dlk_redlock_parts_check(op->text, op->text_len, s->n, &err);
  else if (!op->lease || h)
    err.code = DLK_OK;
  if (err.code != DLK_OK) {
    s->host->done(s->host, op, &err);
    return;
  }
  poll *p = new_poll(s, op);
  if (!p)
    return;
  p->hold = h;
  p->sending = true;
  if (waits_for_all(op->kind))
    s->host->timer_set(s->host, &p->timer,
                       p->started + dlk_redlock_patience(s));
  if (h)
    ask_votes(p);
  else
    for (unsigned i = 0; i < s->n; i++)
      (void)ask(p, i, NULL);
  p->sending = false;
  look(p);
}

void dlk_redlock_poll_cancel(struct dlk_op *op) {
  poll *p = ((struct dlk_redlock_op *)op->data)->poll;
  if (p)
    on_timer(&p->timer, 0);
}
