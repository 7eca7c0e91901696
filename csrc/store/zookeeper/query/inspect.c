/* inspect, break, revoke: a list of the lock's contenders, then each one's
 * data (for who holds also depends on who was downgraded), then what is asked
 * for. What is gone in between is left out; what comes in between is not seen:
 * the picture is that of the list.
 *
 * break deletes the nodes of those that hold, not of those that wait: the next
 * in line is woken by the deletion like by a release. A broken holder hears of
 * it by the watch on its own node, at the latest at its next renewal; until
 * then it may believe in its lease while the next one has it. revoke marks the
 * holders' nodes; they hear of it by the same watch. */
#include "core/mode.h"
#include "store/zookeeper/query/query.h"

#include <stdlib.h>
#include <string.h>

#define SHOWN_MAX 1000

/* ---- what is shown ---- */

static double seconds_since(const struct dlk_zk_shown *s) {
  int64_t ms = dlk_zk_wall_ms() - s->stat.ctime_ms;
  return ms > 0 ? (double)ms / 1e3 : 0;
}

static struct dlk_value *owner_of(const struct dlk_zk_data *d) {
  return dlk_value_string(d->owner, strlen(d->owner));
}

static struct dlk_value *value_of(const struct dlk_zk_data *d) {
  struct dlk_buf escaped = {0}, plain = {0};
  dlk_buf_add(&escaped, d->value, d->value_len);
  dlk_buf_add(&escaped, "", 1);
  if (!escaped.failed)
    dlk_zk_unescape(&plain, escaped.data);
  struct dlk_value *v =
      plain.failed ? NULL
                   : dlk_value_string(plain.data ? plain.data : "", plain.len);
  dlk_buf_free(&escaped);
  dlk_buf_free(&plain);
  return v;
}

static struct dlk_value *holder(const struct dlk_zk_shown *s,
                                const struct dlk_zk_entry *e) {
  struct dlk_zk_data d;
  dlk_zk_data_parse(s->data, s->len, &d);
  struct dlk_value *v = dlk_value_map();
  v = dlk_value_set(v, "owner", owner_of(&d));
  v = dlk_value_set(v, "fence", dlk_value_int(s->stat.czxid));
  if (d.ttl_ms > 0)
    v = dlk_value_set(v, "ttl", dlk_value_number((double)d.ttl_ms / 1e3));
  v = dlk_value_set(v, "since", dlk_value_number(seconds_since(s)));
  if (e->cap > 0)
    v = dlk_value_set(v, "permits", dlk_value_int(e->units));
  if (d.value)
    v = dlk_value_set(v, "value", value_of(&d));
  return v;
}

static struct dlk_value *waiter(const struct dlk_zk_shown *s,
                                const struct dlk_zk_entry *e) {
  struct dlk_zk_data d;
  dlk_zk_data_parse(s->data, s->len, &d);
  struct dlk_value *v = dlk_value_map();
  v = dlk_value_set(v, "owner", owner_of(&d));
  v = dlk_value_set(v, "mode", dlk_mode_value(e->units, e->cap));
  if (e->cap > 0)
    v = dlk_value_set(v, "permits", dlk_value_int(e->units));
  return dlk_value_set(v, "waited", dlk_value_number(seconds_since(s)));
}

static bool holds(const struct dlk_zk_ask *a, size_t place) {
  struct dlk_zk_judgement j;
  dlk_zk_queue_judge(&a->queue, place, &j);
  return j.verdict == DLK_ZK_HOLDS;
}

static struct dlk_value *picture(struct dlk_zk_ask *a) {
  if (a->queue.count == 0)
    return dlk_value_nil();
  const struct dlk_zk_entry *first = &a->queue.at[0];
  struct dlk_value *holders = dlk_value_list(), *waiters = dlk_value_list();
  for (size_t i = 0; i < a->queue.count; i++)
    if (holds(a, i))
      holders = dlk_value_add(holders, holder(&a->shown[i], &a->queue.at[i]));
    else
      waiters = dlk_value_add(waiters, waiter(&a->shown[i], &a->queue.at[i]));
  struct dlk_value *v = dlk_value_map();
  v = dlk_value_set(v, "key", dlk_value_string(a->op->key, a->op->key_len));
  v = dlk_value_set(v, "mode", dlk_mode_value(first->units, first->cap));
  if (first->cap > 0)
    v = dlk_value_set(v, "permits", dlk_value_int(first->cap));
  v = dlk_value_set(v, "holders", holders);
  return dlk_value_set(v, "waiters", waiters);
}

/* ---- what is done ---- */

static void on_acted(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
  struct dlk_zk_ask *a = who;
  if (!dlk_zk_ask_answered(a, tag, r))
    return;
  if (r->rc == DLK_ZK_OK)
    a->any = true;
  else if (r->rc == DLK_ZK_VERSION)
    a->crossed = true;
  else if (r->rc == DLK_ZK_NOAUTH) {
    dlk_zk_ask_end(a, DLK_DENIED, NULL);
    return;
  }
  if (--a->pending > 0)
    return;
  if (a->crossed)
    dlk_zk_ask_again(a);
  else
    dlk_zk_ask_end(a, DLK_OK, dlk_value_bool(a->any));
}

static bool act(struct dlk_zk_ask *a, size_t place) {
  const struct dlk_zk_shown *s = &a->shown[place];
  const char *path = dlk_zk_ask_path(a, a->queue.at[place].name);
  struct dlk_zk_request r = {
      .verb = DLK_ZK_DELETE, .path = path, .version = -1};
  if (!path)
    return false;
  a->acting = true;
  return a->op->kind == DLK_OP_BREAK
             ? dlk_zk_ask_act(a, &r, on_acted)
             : dlk_zk_ask_mark(a, path, s, "revoked=1", on_acted);
}

/* Who was asked already need not be asked again. */
static bool was_asked(const struct dlk_zk_ask *a, size_t place) {
  struct dlk_zk_data d;
  dlk_zk_data_parse(a->shown[place].data, a->shown[place].len, &d);
  return a->op->kind == DLK_OP_REVOKE && d.revoked;
}

static void act_on_holders(struct dlk_zk_ask *a) {
  size_t count = 0;
  bool ok = true;
  for (size_t i = 0; ok && i < a->queue.count; i++)
    if (holds(a, i) && was_asked(a, i)) {
      a->any = true;
    } else if (holds(a, i)) {
      ok = act(a, i);
      count += ok;
    }
  a->pending = count;
  if (!ok)
    dlk_zk_ask_end(a, DLK_UNAVAILABLE, NULL);
  else if (count == 0)
    dlk_zk_ask_end(a, DLK_OK, dlk_value_bool(a->any));
}

/* ---- reading the queue ---- */

/* What is gone leaves; a downgraded hold counts as the reader it is. */
static void settle_queue(struct dlk_zk_ask *a) {
  size_t to = 0;
  for (size_t i = 0; i < a->queue.count; i++) {
    struct dlk_zk_data d;
    if (a->shown[i].gone) {
      free(a->shown[i].data);
      continue;
    }
    a->queue.at[to] = a->queue.at[i];
    a->shown[to] = a->shown[i];
    dlk_zk_data_parse(a->shown[to].data, a->shown[to].len, &d);
    if (d.shared)
      dlk_zk_queue_downgrade(&a->queue, to);
    to++;
  }
  a->queue.count = to;
}

static void all_read(struct dlk_zk_ask *a) {
  settle_queue(a);
  if (a->op->kind != DLK_OP_INSPECT) {
    act_on_holders(a);
    return;
  }
  struct dlk_value *v = picture(a);
  dlk_zk_ask_end(a, v ? DLK_OK : DLK_UNAVAILABLE, v);
}

static void on_read(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
  struct dlk_zk_ask *a = who;
  if (!dlk_zk_ask_answered(a, tag, r))
    return;
  if (r->rc == DLK_ZK_NOAUTH) {
    dlk_zk_ask_end(a, DLK_DENIED, NULL);
    return;
  }
  struct dlk_zk_shown *s = &a->shown[a->queue.count - a->pending];
  s->gone = r->rc != DLK_ZK_OK;
  s->stat = r->stat;
  s->data = s->gone || r->len == 0 ? NULL : malloc(r->len);
  if (s->data) {
    memcpy(s->data, r->data, r->len);
    s->len = r->len;
  }
  if (--a->pending == 0)
    all_read(a);
}

static bool read_all(struct dlk_zk_ask *a) {
  if (a->op->kind == DLK_OP_INSPECT && a->queue.count > SHOWN_MAX)
    a->queue.count = SHOWN_MAX;
  a->shown = calloc(a->queue.count, sizeof *a->shown);
  if (!a->shown)
    return false;
  a->pending = a->queue.count;
  for (size_t i = 0; i < a->queue.count; i++) {
    struct dlk_zk_request r = {.verb = DLK_ZK_GET};
    r.path = dlk_zk_ask_path(a, a->queue.at[i].name);
    if (!r.path || !dlk_zk_ask_send(a, &r, on_read))
      return false;
  }
  return true;
}

static void on_listed(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
  struct dlk_zk_ask *a = who;
  if (!dlk_zk_ask_answered(a, tag, r))
    return;
  bool there = r->rc == DLK_ZK_OK;
  if (!there && r->rc != DLK_ZK_NONODE) {
    dlk_zk_ask_end(a, dlk_zk_code(r->rc), NULL);
    return;
  }
  bool read = !there || (dlk_zk_ask_keep(a, r) &&
                         dlk_zk_queue_read(&a->queue, a->names, a->count));
  bool inspects = a->op->kind == DLK_OP_INSPECT;
  if (read && a->queue.count == 0)
    dlk_zk_ask_end(a, DLK_OK,
                   inspects ? dlk_value_nil() : dlk_value_bool(false));
  else if (!read || !read_all(a))
    dlk_zk_ask_end(a, DLK_UNAVAILABLE, NULL);
}

bool dlk_zk_admin_start(struct dlk_zk_ask *a) {
  struct dlk_zk_request r = {.verb = DLK_ZK_CHILDREN,
                             .path = dlk_zk_ask_path(a, NULL)};
  return r.path && dlk_zk_ask_send(a, &r, on_listed);
}
