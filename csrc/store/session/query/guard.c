/* guard, downgrade and change.
 *
 * guard is one multi: a check that our own node is there, and the write. Our
 * node was first in the queue when the lease was granted and stays so while it
 * exists, so a committed multi was a write by the holder, at that place in the
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

static void end_text(struct dlk_zk_query *q, enum dlk_code code,
                     const char *text) {
  struct dlk_zk_store *st = q->store;
  struct dlk_op *op = q->op;
  dlk_zk_query_detach(q);
  dlk_zk_done_text(st, op, code, text);
}

static void node_is_gone(struct dlk_zk_query *q) {
  struct dlk_zk_contender *n = dlk_zk_holder(q->op->lease);
  if (n)
    dlk_zk_contender_vanished(n);
  dlk_zk_query_end(q, DLK_LOST, NULL);
}

/* ---- guard ---- */

static void on_guarded(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
  struct dlk_zk_query *q = who;
  if (!dlk_zk_query_answered(q, tag, r))
    return;
  if (r->rc == DLK_ZK_OK) {
    bool set = q->op->argv_len[0] == 3;
    struct dlk_value *v =
        set ? dlk_value_int(r->part_version[1]) : dlk_value_bool(true);
    dlk_zk_query_finish(q, dlk_value_add(dlk_value_tuple(), v));
  } else if (r->part_rc[0] == DLK_ZK_NONODE) {
    node_is_gone(q);
  } else {
    char text[160];
    snprintf(text, sizeof text, "the guarded write was refused: %s", r->text);
    end_text(q, DLK_INVALID, text);
  }
}

static bool asks_to(const struct dlk_op *op, const char *word) {
  return op->argc > 0 && op->argv_len[0] == strlen(word) &&
         memcmp(op->argv[0], word, op->argv_len[0]) == 0;
}

/* A version, if it is there. */
static bool version_arg(const struct dlk_op *op, size_t i, int32_t *out) {
  char text[16], *end;
  *out = -1;
  if (op->argc <= i)
    return true;
  if (op->argc > i + 1 || op->argv_len[i] == 0 ||
      op->argv_len[i] >= sizeof text)
    return false;
  memcpy(text, op->argv[i], op->argv_len[i]);
  text[op->argv_len[i]] = '\0';
  long n = strtol(text, &end, 10);
  if (*end != '\0' || n < -1 || n > INT32_MAX)
    return false;
  *out = (int32_t)n;
  return true;
}

static bool read_write(struct dlk_zk_query *q, struct dlk_zk_request *w) {
  const struct dlk_op *op = q->op;
  bool ok = op->argc >= 2 && !memchr(op->argv[1], '\0', op->argv_len[1]);
  if (!ok)
    return false;
  if (asks_to(op, "SET")) {
    w->verb = DLK_ZK_SET;
    ok = op->argc >= 3 && version_arg(op, 3, &w->version);
  } else if (asks_to(op, "CREATE")) {
    w->verb = DLK_ZK_CREATE;
    w->mode = DLK_ZK_PERSISTENT;
    ok = op->argc == 3;
  } else if (asks_to(op, "DELETE")) {
    w->verb = DLK_ZK_DELETE;
    ok = version_arg(op, 2, &w->version);
  } else {
    return false;
  }
  if (ok && w->verb != DLK_ZK_DELETE) {
    w->data = op->argv[2];
    w->len = op->argv_len[2];
  }
  dlk_buf_clear(&q->path);
  dlk_buf_add(&q->path, q->store->base, q->store->chroot);
  dlk_buf_add(&q->path, op->argv[1], op->argv_len[1]);
  dlk_buf_add(&q->path, "", 1);
  w->path = q->path.data;
  return ok && !q->path.failed && op->argv_len[1] > 1 &&
         op->argv[1][0] == '/' && dlk_zk_path_ok(q->path.data);
}

static bool start_guard(struct dlk_zk_query *q, struct dlk_zk_contender *n) {
  struct dlk_zk_request parts[2] = {
      {.verb = DLK_ZK_CHECK, .path = n->path, .version = -1}};
  struct dlk_zk_request r = {
      .verb = DLK_ZK_MULTI, .parts = parts, .part_count = 2};
  if (!read_write(q, &parts[1])) {
    end_text(q, DLK_INVALID,
             "guard takes \"SET\", path, data [, version], or \"CREATE\", "
             "path, data, or \"DELETE\", path [, version]");
    return true;
  }
  return dlk_zk_query_send(q, DLK_ZK_FOR_ACT, &r, on_guarded);
}

/* ---- downgrade ---- */

static void is_shared(struct dlk_zk_query *q, struct dlk_zk_contender *n) {
  if (n)
    n->downgraded = true;
  dlk_zk_query_end(q, DLK_OK, NULL);
}

static void on_downgraded(void *who, uint32_t tag,
                          const struct dlk_zk_reply *r) {
  struct dlk_zk_query *q = who;
  if (!dlk_zk_query_answered(q, tag, r))
    return;
  struct dlk_zk_contender *n = dlk_zk_holder(q->op->lease);
  if (r->rc == DLK_ZK_OK) {
    is_shared(q, n);
  } else if (r->rc == DLK_ZK_VERSION) {
    dlk_zk_query_again(q);
  } else {
    node_is_gone(q);
  }
}

static void on_own_read(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
  struct dlk_zk_query *q = who;
  if (!dlk_zk_query_answered(q, tag, r))
    return;
  struct dlk_zk_contender *n = dlk_zk_holder(q->op->lease);
  const struct dlk_zk_shown read = {
      .data = (char *)(uintptr_t)r->data, .len = r->len, .stat = r->stat};
  struct dlk_zk_data data;
  dlk_zk_data_parse(r->data, r->len, &data);
  if (r->rc == DLK_ZK_NONODE || !n)
    node_is_gone(q);
  else if (data.shared)
    is_shared(q, n);
  else if (!dlk_zk_query_mark(q, DLK_ZK_FOR_DOWNGRADE, n->path, &read,
                              "shared=1", on_downgraded))
    dlk_zk_query_end(q, DLK_UNAVAILABLE, NULL);
}

static bool start_downgrade(struct dlk_zk_query *q,
                            struct dlk_zk_contender *n) {
  struct dlk_zk_request r = {.verb = DLK_ZK_GET, .path = n->path};
  if (n->want.units != 0 || n->downgraded) {
    dlk_zk_query_end(q, DLK_OK, NULL);
    return true;
  }
  return dlk_zk_query_send(q, DLK_ZK_FOR_READ, &r, on_own_read);
}

bool dlk_zk_guard_start(struct dlk_zk_query *q) {
  struct dlk_zk_contender *n = dlk_zk_holder(q->op->lease);
  if (!n || dlk_zk_now(q->store) >= n->member.session->confirm.horizon) {
    dlk_zk_query_end(q, DLK_LOST, NULL);
    return true;
  }
  return q->op->kind == DLK_OP_GUARD ? start_guard(q, n)
                                     : start_downgrade(q, n);
}

/* ---- change ---- */

static void on_head(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
  struct dlk_zk_query *q = who;
  if (!dlk_zk_query_answered(q, tag, r))
    return;
  struct dlk_zk_data d;
  dlk_zk_data_parse(r->data, r->len, &d);
  if (r->rc == DLK_ZK_OK &&
      (d.fence > 0 ? d.fence : r->stat.czxid) == q->op->fence) {
    const char *path = dlk_zk_query_path(q, q->queue.at[0].name);
    if (!path || !dlk_zk_watch_add(&q->member, path, false, false))
      dlk_zk_query_end(q, DLK_UNAVAILABLE, NULL);
  } else if (r->rc == DLK_ZK_NONODE && q->op->fence == 0)
    dlk_zk_query_again(q);
  else
    dlk_zk_query_end(q, DLK_OK, NULL);
}

static void on_above_made(void *who, uint32_t tag,
                          const struct dlk_zk_reply *r) {
  struct dlk_zk_query *q = who;
  if (!dlk_zk_query_answered(q, tag, r))
    return;
  q->barred |= r->rc == DLK_ZK_NOAUTH;
  dlk_zk_above_heard(q->store, r);
}

/* Answered last. Whether a node above could not be made says nothing by itself:
 * who may not make nodes there is refused also when it exists. */
static void on_made(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
  struct dlk_zk_query *q = who;
  if (!dlk_zk_query_answered(q, tag, r))
    return;
  dlk_zk_above_heard(q->store, r);
  if (r->rc == DLK_ZK_NOAUTH || (r->rc == DLK_ZK_NONODE && q->barred))
    dlk_zk_query_end(q, DLK_DENIED, NULL);
  else if (r->rc == DLK_ZK_FAILED)
    dlk_zk_query_refused(q, r);
  else
    dlk_zk_query_again(q);
}

/* Nobody ever came: there must be a node to watch the list of. */
static bool make_node(struct dlk_zk_query *q) {
  char *path = (char *)(uintptr_t)dlk_zk_query_path(q, NULL);
  if (!path)
    return false;
  q->barred = false;
  for (size_t i = 1; i <= q->path_len; i++) {
    if (path[i] != '/' && path[i] != '\0')
      continue;
    char kept = path[i];
    path[i] = '\0';
    struct dlk_zk_request r = {.verb = DLK_ZK_CREATE,
                               .path = path,
                               .data = "",
                               .mode = dlk_zk_above_mode(q->store, i)};
    bool ok = dlk_zk_query_send(q, DLK_ZK_FOR_WATCHED, &r,
                                i < q->path_len ? on_above_made : on_made);
    path[i] = kept;
    if (!ok)
      return false;
  }
  return true;
}

static void nobody_holds(struct dlk_zk_query *q) {
  const char *path = dlk_zk_query_path(q, NULL);
  if (q->op->fence != 0)
    dlk_zk_query_end(q, DLK_OK, NULL);
  else if (!path || !dlk_zk_watch_add(&q->member, path, false, true))
    dlk_zk_query_end(q, DLK_UNAVAILABLE, NULL);
}

static void on_queue(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
  struct dlk_zk_query *q = who;
  if (!dlk_zk_query_answered(q, tag, r))
    return;
  if (r->rc == DLK_ZK_NONODE && q->op->fence == 0) {
    if (!make_node(q))
      dlk_zk_query_end(q, DLK_UNAVAILABLE, NULL);
    return;
  }
  if (r->rc == DLK_ZK_OK && !dlk_zk_query_read(q, r))
    return;
  if (q->queue.count == 0) {
    nobody_holds(q);
    return;
  }
  struct dlk_zk_request get = {.verb = DLK_ZK_GET};
  get.path = dlk_zk_query_path(q, q->queue.at[0].name);
  if (!get.path || !dlk_zk_query_send(q, DLK_ZK_FOR_READ, &get, on_head))
    dlk_zk_query_end(q, DLK_UNAVAILABLE, NULL);
}

bool dlk_zk_change_start(struct dlk_zk_query *q) {
  struct dlk_zk_request r = {.verb = DLK_ZK_CHILDREN,
                             .path = dlk_zk_query_path(q, NULL)};
  return r.path && dlk_zk_query_send(q, DLK_ZK_FOR_READ, &r, on_queue);
}
