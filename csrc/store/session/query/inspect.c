/* inspect, break, revoke: a list, then each contender's data (a downgrade
 * changes the holders), then the act. Nodes that go meanwhile are left out, new
 * ones are not seen.
 *
 * break deletes the holders' nodes only; each deletion wakes the queue like a
 * release. The holder hears by its own watch, at the latest at its next
 * renewal, and believes in its lease until then. A stand-in may appear
 * meanwhile (standin.c, I1), so break lists again and deletes those of broken
 * holders. revoke marks the holders' nodes; the same watch tells them. */
#include "store/session/query/query.h"

#include <stdlib.h>
#include <string.h>

#include "store/kit/shown.h"
#include "store/session/format/data.h"

static double seconds_since(const struct dlk_ss_shown *s) {
  int64_t ms = dlk_ss_wall_ms() - s->stat.ctime_ms;
  if (s->stat.ctime_ms == 0)
    return -1;
  return ms > 0 ? (double)ms / 1e3 : 0;
}

static struct dlk_value *owner_of(const struct dlk_ss_data *d) {
  return dlk_value_string(d->owner, strlen(d->owner));
}

static struct dlk_value *value_of(const struct dlk_ss_data *d) {
  struct dlk_buf escaped = {0}, plain = {0};
  dlk_buf_add(&escaped, d->value, d->value_len);
  dlk_buf_add(&escaped, "", 1);
  if (!escaped.failed)
    dlk_ss_unescape(&plain, escaped.data);
  struct dlk_value *v =
      plain.failed ? NULL
                   : dlk_value_string(plain.data ? plain.data : "", plain.len);
  dlk_buf_free(&escaped);
  dlk_buf_free(&plain);
  return v;
}

/* A stand-in's ttl is the time left. */
static struct dlk_value *holder(struct dlk_ss_query *q,
                                const struct dlk_ss_shown *s,
                                const struct dlk_ss_entry *e) {
  struct dlk_ss_data d;
  dlk_ss_data_parse(s->data, s->len, &d);
  int64_t left = dlk_ss_clock_left(q->store, e->until_ms);
  if (e->until_ms > 0)
    d.ttl_ms =
        left == DLK_FOREVER ? d.end_ms - dlk_ss_wall_ms() : left / DLK_MS;
  struct dlk_want want = {e->units, e->cap};
  struct dlk_value *v = dlk_shown_holder(
      owner_of(&d), want, d.fence > 0 ? d.fence : s->stat.fence,
      d.ttl_ms > 0 ? (double)d.ttl_ms / 1e3 : -1, seconds_since(s));
  if (d.value_len > 0)
    v = dlk_value_set(v, "value", value_of(&d));
  return v;
}

static struct dlk_value *waiter(const struct dlk_ss_shown *s,
                                const struct dlk_ss_entry *e) {
  struct dlk_ss_data d;
  dlk_ss_data_parse(s->data, s->len, &d);
  return dlk_shown_waiter(owner_of(&d), (struct dlk_want){e->units, e->cap},
                          seconds_since(s));
}

static bool holds(const struct dlk_ss_query *q, size_t place) {
  struct dlk_ss_judgement j;
  dlk_ss_queue_judge(&q->queue, place, &j);
  return j.verdict == DLK_SS_HOLDS;
}

static struct dlk_value *picture(struct dlk_ss_query *q) {
  if (q->queue.count == 0)
    return dlk_value_nil();
  const struct dlk_ss_entry *first = &q->queue.at[0];
  struct dlk_value *holders = dlk_value_list(), *waiters = dlk_value_list();
  size_t waiting = 0;
  for (size_t i = 0; i < q->queue.count; i++)
    if (!holds(q, i) && ++waiting <= DLK_SHOWN_MAX)
      waiters = dlk_value_add(waiters, waiter(&q->shown[i], &q->queue.at[i]));
    else if (waiting == 0 && i < DLK_SHOWN_MAX)
      holders =
          dlk_value_add(holders, holder(q, &q->shown[i], &q->queue.at[i]));
  return dlk_shown_key(q->op, (struct dlk_want){first->units, first->cap}, true,
                       holders, waiters);
}

static void on_acted(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  if (r->rc == DLK_SS_OK)
    q->any = true;
  else if (r->rc == DLK_SS_VERSION)
    q->crossed = true;
  if (--q->pending > 0)
    return;
  if (q->crossed || q->after_break)
    dlk_ss_query_again(q);
  else
    dlk_ss_query_finish(q, dlk_value_bool(q->any));
}

static bool act(struct dlk_ss_query *q, size_t place) {
  const char *path = dlk_ss_query_path(q, q->queue.at[place].name);
  struct dlk_ss_request r = {.verb = DLK_SS_DELETE, .path = path};
  if (!path)
    return false;
  if (q->op->kind == DLK_OP_BREAK)
    return dlk_ss_query_send(q, DLK_SS_FOR_ACT, &r, on_acted);
  return dlk_ss_query_mark(q, DLK_SS_FOR_ACT, path, &q->shown[place],
                           "revoked=1", on_acted);
}

static void act_on_holders(struct dlk_ss_query *q) {
  bool second = q->after_break, breaks = q->op->kind == DLK_OP_BREAK;
  size_t count = 0;
  bool ok = true;
  q->after_break = false;
  q->any |= second;
  for (size_t i = 0; ok && i < q->queue.count; i++) {
    struct dlk_ss_data d;
    dlk_ss_data_parse(q->shown[i].data, q->shown[i].len, &d);
    if (!holds(q, i))
      continue;
    if (!breaks && d.revoked) { /* asked already */
      q->any = true;
    } else if (!second || q->queue.at[i].until_ms > 0) {
      ok = act(q, i);
      count += ok;
      q->after_break |= breaks && !second && q->queue.at[i].keeps;
    }
  }
  q->pending = count;
  if (!ok)
    dlk_ss_query_end(q, DLK_UNAVAILABLE, NULL);
  else if (count == 0)
    dlk_ss_query_finish(q, dlk_value_bool(q->any));
}

/* Drops what is gone; a downgraded hold counts as a reader. */
static void settle_queue(struct dlk_ss_query *q) {
  size_t to = 0;
  for (size_t i = 0; i < q->queue.count; i++) {
    struct dlk_ss_data d;
    if (q->shown[i].gone) {
      free(q->shown[i].data);
      continue;
    }
    q->queue.at[to] = q->queue.at[i];
    q->shown[to] = q->shown[i];
    dlk_ss_data_parse(q->shown[to].data, q->shown[to].len, &d);
    if (d.shared)
      dlk_ss_queue_downgrade(&q->queue, to);
    to++;
  }
  q->queue.count = to;
}

static void on_read(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  struct dlk_ss_shown *s = &q->shown[q->queue.count - q->pending];
  s->gone = r->rc != DLK_SS_OK;
  s->stat = r->stat;
  s->data = s->gone || r->len == 0 ? NULL : malloc(r->len);
  if (s->data) {
    memcpy(s->data, r->data, r->len);
    s->len = r->len;
  } else if (!s->gone && r->len > 0) {
    q->scarce = true;
  }
  if (--q->pending > 0)
    return;
  if (q->scarce) { /* an owner would be missing, or overwritten */
    dlk_ss_query_end(q, DLK_UNAVAILABLE, NULL);
    return;
  }
  settle_queue(q);
  if (q->op->kind == DLK_OP_INSPECT)
    dlk_ss_query_finish(q, picture(q));
  else
    act_on_holders(q);
}

static bool read_all(struct dlk_ss_query *q) {
  if (q->op->kind == DLK_OP_INSPECT && q->queue.count > 2 * DLK_SHOWN_MAX)
    q->queue.count = 2 * DLK_SHOWN_MAX;
  q->shown = calloc(q->queue.count, sizeof *q->shown);
  q->pending = q->queue.count;
  bool ok = q->shown != NULL;
  for (size_t i = 0; ok && i < q->queue.count; i++)
    ok = dlk_ss_query_get(q, i, on_read);
  return ok;
}

static void on_listed(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  if (r->rc == DLK_SS_OK && !dlk_ss_query_read(q, r))
    return;
  bool inspects = q->op->kind == DLK_OP_INSPECT;
  if (q->queue.count == 0)
    dlk_ss_query_finish(q, inspects ? dlk_value_nil()
                                    : dlk_value_bool(q->after_break));
  else if (!read_all(q))
    dlk_ss_query_end(q, DLK_UNAVAILABLE, NULL);
}

bool dlk_ss_admin_start(struct dlk_ss_query *q) {
  return dlk_ss_query_list(q, dlk_ss_query_path(q, NULL), on_listed);
}
