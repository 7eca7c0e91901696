/* guard, downgrade, publish and change.
 *
 * guard is one write that needs our own node. The node stays first while it
 * exists, so a done write was the holder's. After a loss it fails, however
 * late.
 *
 * downgrade adds `shared` to our node's data. The node keeps its place: there
 * is no gap, and writers wait. Readers behind watch it and then count it as a
 * reader (place.c, judge), only after the holder asked. A lost answer may mean
 * readers inside, so our node is read and written again, by the version read,
 * which exposes a late earlier write. From the first write on the op ends only
 * once that is known, or with the session.
 *
 * publish puts another `value` into our node's data, in the same way: read and
 * written by its version, so a late earlier write comes to nothing.
 *
 * change (an election's wait_change) watches the head of the queue if it is
 * `fence`'s; without a head, the list. */
#include "store/session/query/query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/session/format/data.h"
#include "store/session/format/names.h"

static void end_text(struct dlk_ss_query *q, enum dlk_code code,
                     const char *text) {
  struct dlk_ss_store *st = q->store;
  struct dlk_op *op = q->op;
  dlk_ss_query_detach(q);
  dlk_ss_done_text(st, op, code, text);
}

static void node_is_gone(struct dlk_ss_query *q) {
  struct dlk_ss_contender *n = dlk_ss_holder(q->op->lease);
  if (n)
    dlk_ss_contender_vanished(n);
  dlk_ss_query_end(q, DLK_LOST, NULL);
}

static void on_guarded(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  if (r->rc == DLK_SS_OK) {
    struct dlk_value *v = r->stat.version >= 0 ? dlk_value_int(r->stat.version)
                                               : dlk_value_bool(true);
    dlk_ss_query_finish(q, dlk_value_add(dlk_value_tuple(), v));
  } else if (r->rc == DLK_SS_NONODE) {
    node_is_gone(q);
  } else {
    char text[160];
    snprintf(text, sizeof text, "the guarded write was refused: %s", r->text);
    end_text(q, DLK_INVALID, text);
  }
}

/* ---- downgrade ---- */

static void is_shared(struct dlk_ss_query *q, struct dlk_ss_contender *n) {
  if (n)
    n->downgraded = true;
  dlk_ss_query_end(q, DLK_OK, NULL);
}

static void on_downgraded(struct dlk_ss_query *q,
                          const struct dlk_ss_reply *r) {
  if (r->rc == DLK_SS_OK)
    is_shared(q, dlk_ss_holder(q->op->lease));
  else if (r->rc == DLK_SS_VERSION)
    dlk_ss_query_again(q);
  else
    node_is_gone(q);
}

static void on_own_read(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  struct dlk_ss_contender *n = dlk_ss_holder(q->op->lease);
  const struct dlk_ss_shown read = {
      .data = (char *)(uintptr_t)r->data, .len = r->len, .stat = r->stat};
  struct dlk_ss_data data;
  dlk_ss_data_parse(r->data, r->len, &data);
  if (r->rc == DLK_SS_NONODE || !n)
    node_is_gone(q);
  else if (data.shared)
    is_shared(q, n);
  else if (!dlk_ss_query_mark(q, DLK_SS_FOR_DOWNGRADE, n->path, &read,
                              "shared=1", on_downgraded))
    dlk_ss_query_end(q, DLK_UNAVAILABLE, NULL);
}

/* ---- publish ---- */

static void on_published(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  if (r->rc == DLK_SS_OK)
    dlk_ss_query_end(q, DLK_OK, NULL);
  else if (r->rc == DLK_SS_VERSION)
    dlk_ss_query_again(q);
  else
    node_is_gone(q);
}

/* The node's data with another value, at the end. */
static bool put_value(struct dlk_ss_query *q, const char *path,
                      const struct dlk_ss_reply *r,
                      const struct dlk_ss_data *data) {
  struct dlk_buf rest = {0}, line = {0};
  const char *end = r->data + r->len;
  const char *from = data->value ? data->value - strlen("value=") : end;
  const char *to = data->value ? data->value + data->value_len : end;
  dlk_buf_add(&rest, r->data, (size_t)(from - r->data));
  if (to < end) /* behind its line's end */
    dlk_buf_add(&rest, to + 1, (size_t)(end - to - 1));
  dlk_buf_addf(&line, "value=");
  dlk_ss_escape(&line, q->op->text, q->op->text_len);
  dlk_buf_add(&line, "", 1);
  const struct dlk_ss_shown shown = {
      .data = rest.data, .len = rest.len, .stat = r->stat};
  bool ok = !rest.failed && !line.failed &&
            dlk_ss_query_mark(q, DLK_SS_FOR_DOWNGRADE, path, &shown, line.data,
                              on_published);
  dlk_buf_free(&rest);
  dlk_buf_free(&line);
  return ok;
}

static void on_own_value(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  struct dlk_ss_contender *n = dlk_ss_holder(q->op->lease);
  struct dlk_ss_data data;
  dlk_ss_data_parse(r->data, r->len, &data);
  if (r->rc == DLK_SS_NONODE || !n)
    node_is_gone(q);
  else if (!put_value(q, n->path, r, &data))
    dlk_ss_query_end(q, DLK_UNAVAILABLE, NULL);
}

/* ---- all ---- */

bool dlk_ss_guard_start(struct dlk_ss_query *q) {
  struct dlk_ss_contender *n = dlk_ss_holder(q->op->lease);
  if (!n || dlk_ss_now(q->store) >= n->member.session->proof.horizon) {
    dlk_ss_query_end(q, DLK_LOST, NULL);
    return true;
  }
  if (q->op->kind == DLK_OP_GUARD) {
    struct dlk_ss_store *st = q->store;
    const char *wrong = st->driver->guard_error(st->sessions.client, q->op);
    struct dlk_ss_request r = {
        .verb = DLK_SS_GUARD, .own = n->path, .op = q->op};
    if (!wrong)
      return dlk_ss_query_send(q, DLK_SS_FOR_ACT, &r, on_guarded);
    end_text(q, DLK_INVALID, wrong);
    return true;
  }
  bool publishes = q->op->kind == DLK_OP_PUBLISH;
  if (publishes || (n->want.units == 0 && !n->downgraded)) {
    struct dlk_ss_request r = {.verb = DLK_SS_READ, .path = n->path};
    return dlk_ss_query_send(q, DLK_SS_FOR_READ, &r,
                             publishes ? on_own_value : on_own_read);
  }
  dlk_ss_query_end(q, DLK_OK, NULL);
  return true;
}

/* ---- change ---- */

static void on_head(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  struct dlk_ss_data d;
  dlk_ss_data_parse(r->data, r->len, &d);
  if (r->rc == DLK_SS_OK &&
      (d.fence > 0 ? d.fence : r->stat.fence) == q->op->fence) {
    const char *path = dlk_ss_query_path(q, q->queue.at[0].name);
    if (!path || !dlk_ss_watch_add(&q->member, path, false, false))
      dlk_ss_query_end(q, DLK_UNAVAILABLE, NULL);
  } else if (r->rc == DLK_SS_NONODE && q->op->fence == 0)
    dlk_ss_query_again(q);
  else
    dlk_ss_query_end(q, DLK_OK, NULL);
}

static void on_made(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  if (r->rc == DLK_SS_NOAUTH || r->rc == DLK_SS_FAILED)
    dlk_ss_query_refused(q, r);
  else
    dlk_ss_query_again(q);
}

/* Nobody holds. A missing folder is made first, to watch its list. */
static bool await_anybody(struct dlk_ss_query *q, enum dlk_ss_rc rc) {
  struct dlk_ss_request r = {.verb = DLK_SS_FOLDER,
                             .path = dlk_ss_query_path(q, NULL)};
  if (!r.path)
    return false;
  if (rc == DLK_SS_NONODE)
    return dlk_ss_query_send(q, DLK_SS_FOR_WATCHED, &r, on_made);
  return dlk_ss_watch_add(&q->member, r.path, false, true);
}

static void on_queue(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  if (r->rc == DLK_SS_OK && !dlk_ss_query_read(q, r))
    return;
  bool none = q->queue.count == 0;
  if (none && q->op->fence != 0)
    dlk_ss_query_end(q, DLK_OK, NULL);
  else if (none ? !await_anybody(q, r->rc) : !dlk_ss_query_get(q, 0, on_head))
    dlk_ss_query_end(q, DLK_UNAVAILABLE, NULL);
}

bool dlk_ss_change_start(struct dlk_ss_query *q) {
  struct dlk_ss_request r = {.verb = DLK_SS_LIST,
                             .path = dlk_ss_query_path(q, NULL)};
  return r.path && dlk_ss_query_send(q, DLK_SS_FOR_READ, &r, on_queue);
}
