/* guard, downgrade and change.
 *
 * guard is one write, done only if our own node is there. Our
 * node was first in the queue when the lease was granted and stays so while it
 * exists, so what is done was a write by the holder, at that place in the
 * order of all writes; after a loss the check fails and nothing is written,
 * however late the request arrives.
 *
 * downgrade adds `shared` to what our node says. The node keeps its place,
 * so there is no gap, and no writer passes it: a writer waits for every node
 * ahead to go. The readers behind it watch it (it is the nearest exclusive
 * node ahead of the first of them, or of a writer that keeps them out anyway);
 * the change wakes them, they read the data, and count the node as a reader
 * from then on (place.c, judge). They are let in only after the holder asked
 * for it to be written, so nobody shares what is still exclusive. A write whose
 * answer is lost may be done, and readers be in, so the lease must not stay
 * exclusive: our own node is read again, and written if it does not say so
 * yet (with the version that was read, so an earlier write that comes late is
 * noticed). From that write on the op ends only when it is known, also when its
 * caller does not wait any more, or with the session.
 *
 * change (an election's wait_change): the head of the queue is read; if it is
 * the one of `fence` it is watched, and if there is none the list is. */
#include "store/session/query/query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/session/format/data.h"
#include "store/session/life/watch.h"

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

/* ---- guard ---- */

static void on_guarded(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  struct dlk_ss_query *q = who;
  if (!dlk_ss_query_answered(q, tag, r))
    return;
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

static bool start_guard(struct dlk_ss_query *q, struct dlk_ss_contender *n) {
  struct dlk_ss_store *st = q->store;
  const char *wrong = st->driver->guard_error(st->sessions.client, q->op);
  struct dlk_ss_request r = {.verb = DLK_SS_GUARD, .own = n->path, .op = q->op};
  if (wrong) {
    end_text(q, DLK_INVALID, wrong);
    return true;
  }
  return dlk_ss_query_send(q, DLK_SS_FOR_ACT, &r, on_guarded);
}

/* ---- downgrade ---- */

static void is_shared(struct dlk_ss_query *q, struct dlk_ss_contender *n) {
  if (n)
    n->downgraded = true;
  dlk_ss_query_end(q, DLK_OK, NULL);
}

static void on_downgraded(void *who, uint32_t tag,
                          const struct dlk_ss_reply *r) {
  struct dlk_ss_query *q = who;
  if (!dlk_ss_query_answered(q, tag, r))
    return;
  struct dlk_ss_contender *n = dlk_ss_holder(q->op->lease);
  if (r->rc == DLK_SS_OK) {
    is_shared(q, n);
  } else if (r->rc == DLK_SS_VERSION) {
    dlk_ss_query_again(q);
  } else {
    node_is_gone(q);
  }
}

static void on_own_read(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  struct dlk_ss_query *q = who;
  if (!dlk_ss_query_answered(q, tag, r))
    return;
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

static bool start_downgrade(struct dlk_ss_query *q,
                            struct dlk_ss_contender *n) {
  struct dlk_ss_request r = {.verb = DLK_SS_READ, .path = n->path};
  if (n->want.units != 0 || n->downgraded) {
    dlk_ss_query_end(q, DLK_OK, NULL);
    return true;
  }
  return dlk_ss_query_send(q, DLK_SS_FOR_READ, &r, on_own_read);
}

bool dlk_ss_guard_start(struct dlk_ss_query *q) {
  struct dlk_ss_contender *n = dlk_ss_holder(q->op->lease);
  if (!n || dlk_ss_now(q->store) >= n->member.session->proof.horizon) {
    dlk_ss_query_end(q, DLK_LOST, NULL);
    return true;
  }
  return q->op->kind == DLK_OP_GUARD ? start_guard(q, n)
                                     : start_downgrade(q, n);
}

/* ---- change ---- */

static void on_head(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  struct dlk_ss_query *q = who;
  if (!dlk_ss_query_answered(q, tag, r))
    return;
  struct dlk_ss_data d;
  dlk_ss_data_parse(r->data, r->len, &d);
  if (r->rc == DLK_SS_OK &&
      (d.fence > 0 ? d.fence : r->stat.czxid) == q->op->fence) {
    const char *path = dlk_ss_query_path(q, q->queue.at[0].name);
    if (!path || !dlk_ss_watch_add(&q->member, path, false, false))
      dlk_ss_query_end(q, DLK_UNAVAILABLE, NULL);
  } else if (r->rc == DLK_SS_NONODE && q->op->fence == 0)
    dlk_ss_query_again(q);
  else
    dlk_ss_query_end(q, DLK_OK, NULL);
}

static void on_made(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  struct dlk_ss_query *q = who;
  if (!dlk_ss_query_answered(q, tag, r))
    return;
  if (r->rc == DLK_SS_NOAUTH)
    dlk_ss_query_end(q, DLK_DENIED, NULL);
  else if (r->rc == DLK_SS_FAILED)
    dlk_ss_query_refused(q, r);
  else
    dlk_ss_query_again(q);
}

/* Nobody ever came: there must be a folder to watch the list of. */
static bool make_folder(struct dlk_ss_query *q) {
  struct dlk_ss_request r = {.verb = DLK_SS_FOLDER,
                             .path = dlk_ss_query_path(q, NULL)};
  return r.path && dlk_ss_query_send(q, DLK_SS_FOR_WATCHED, &r, on_made);
}

static void nobody_holds(struct dlk_ss_query *q) {
  const char *path = dlk_ss_query_path(q, NULL);
  if (q->op->fence != 0)
    dlk_ss_query_end(q, DLK_OK, NULL);
  else if (!path || !dlk_ss_watch_add(&q->member, path, false, true))
    dlk_ss_query_end(q, DLK_UNAVAILABLE, NULL);
}

static void on_queue(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  struct dlk_ss_query *q = who;
  if (!dlk_ss_query_answered(q, tag, r))
    return;
  if (r->rc == DLK_SS_NONODE && q->op->fence == 0) {
    if (!make_folder(q))
      dlk_ss_query_end(q, DLK_UNAVAILABLE, NULL);
    return;
  }
  if (r->rc == DLK_SS_OK && !dlk_ss_query_read(q, r))
    return;
  if (q->queue.count == 0) {
    nobody_holds(q);
    return;
  }
  struct dlk_ss_request get = {.verb = DLK_SS_READ};
  get.path = dlk_ss_query_path(q, q->queue.at[0].name);
  if (!get.path || !dlk_ss_query_send(q, DLK_SS_FOR_READ, &get, on_head))
    dlk_ss_query_end(q, DLK_UNAVAILABLE, NULL);
}

bool dlk_ss_change_start(struct dlk_ss_query *q) {
  struct dlk_ss_request r = {.verb = DLK_SS_LIST,
                             .path = dlk_ss_query_path(q, NULL)};
  return r.path && dlk_ss_query_send(q, DLK_SS_FOR_READ, &r, on_queue);
}
