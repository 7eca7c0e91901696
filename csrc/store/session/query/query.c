/* Operations that only read, or act once, on any connected session. After a
 * lost answer a read starts over, an act (guarded write, mark, break) ends
 * (meaning.h).
 *
 * ping times one read: a server answers and accepts our session. */
#include "store/session/query/query.h"

#include <stdlib.h>

#define RETRY (100 * DLK_MS)

/* ---- life ---- */

static void free_work(struct dlk_ss_query *q) {
  for (size_t i = 0; q->shown && i < q->queue.count; i++)
    free(q->shown[i].data);
  free(q->shown);
  q->shown = NULL;
  dlk_ss_queue_free(&q->queue);
  free(q->names);
  q->names = NULL;
  q->count = q->pending = 0;
  q->any = q->crossed = q->scarce = false;
  q->purpose = DLK_SS_FOR_READ;
  dlk_ss_watch_drop(&q->member);
}

static void free_query(struct dlk_ss_query *q) {
  free_work(q);
  dlk_buf_free(&q->path);
  free(q);
}

static void leave(struct dlk_ss_query *q) {
  q->store->host->timer_clear(q->store->host, &q->timer);
  if (q->member.flying > 0)
    return;
  dlk_ss_session_leave(&q->member);
  free_query(q);
}

void dlk_ss_query_detach(struct dlk_ss_query *q) {
  q->op = NULL;
  dlk_ss_watch_drop(&q->member);
  leave(q);
}

void dlk_ss_query_end(struct dlk_ss_query *q, enum dlk_code code,
                      struct dlk_value *result) {
  struct dlk_ss_store *st = q->store;
  struct dlk_op *op = q->op;
  op->result = result;
  dlk_ss_query_detach(q);
  dlk_ss_done(st, op, code);
}

void dlk_ss_query_refused(struct dlk_ss_query *q,
                          const struct dlk_ss_reply *r) {
  dlk_ss_op_heard(q->op, r);
  dlk_ss_query_end(q, dlk_ss_code(r->rc), NULL);
}

void dlk_ss_query_finish(struct dlk_ss_query *q, struct dlk_value *result) {
  dlk_ss_query_end(q, result ? DLK_OK : DLK_UNAVAILABLE, result);
}

void dlk_ss_query_cancel(struct dlk_ss_query *q) {
  const struct dlk_op *op = q->op;
  if (q->settling)
    return;
  bool waits = op->kind == DLK_OP_CHANGE;
  dlk_ss_query_end(q, waits ? op->ending : dlk_ss_unanswered(op), NULL);
}

static void start(struct dlk_ss_query *q) {
  q->store->host->timer_clear(q->store->host, &q->timer);
  q->tag++;
  free_work(q);
  if (!q->first(q))
    dlk_ss_query_end(q, DLK_UNAVAILABLE, NULL);
}

static void timer_fired(struct dlk_timer *timer, int64_t now) {
  (void)now;
  start(DLK_CONTAINER(timer, struct dlk_ss_query, timer));
}

void dlk_ss_query_again(struct dlk_ss_query *q) {
  q->purpose = DLK_SS_FOR_READ;
  if (q->op && dlk_ss_session_connected(q->member.session))
    start(q);
}

/* ---- requests ---- */

static void on_answer(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  struct dlk_ss_query *q = who;
  struct dlk_host *host = q->store->host;
  q->member.flying--;
  if (!q->op) {
    leave(q);
    return;
  }
  if (tag != q->tag)
    return;
  switch (dlk_ss_meaning(q->purpose, r->rc)) {
  case DLK_SS_ANSWERED:
  case DLK_SS_MISSING:
  case DLK_SS_CROSSED:
    q->heard(q, r);
    break;
  case DLK_SS_REFUSED:
  case DLK_SS_UNSURE:
    dlk_ss_query_refused(q, r);
    break;
  case DLK_SS_REPEAT:
  case DLK_SS_INSIST:
  case DLK_SS_SETTLE:
    dlk_ss_op_heard(q->op, r);
    q->tag++;
    free_work(q);
    if (dlk_ss_session_connected(q->member.session))
      host->timer_set(host, &q->timer, dlk_ss_now(q->store) + RETRY);
    break;
  }
}

bool dlk_ss_query_send(struct dlk_ss_query *q, enum dlk_ss_purpose purpose,
                       struct dlk_ss_request *r, dlk_ss_heard *heard) {
  q->purpose = purpose;
  q->heard = heard;
  if (!dlk_ss_send(q->member.session, r, on_answer, q, q->tag))
    return false;
  q->settling |= dlk_ss_until_known(purpose);
  q->member.settles = q->settling;
  q->member.flying++;
  return true;
}

bool dlk_ss_query_mark(struct dlk_ss_query *q, enum dlk_ss_purpose purpose,
                       const char *path, const struct dlk_ss_shown *read,
                       const char *line, dlk_ss_heard *heard) {
  struct dlk_buf data = {0};
  dlk_buf_add(&data, read->data, read->len);
  dlk_buf_addf(&data, "%s\n", line);
  struct dlk_ss_request r = {.verb = DLK_SS_MARK,
                             .path = path,
                             .data = data.data,
                             .len = data.len,
                             .version = read->stat.version};
  bool ok = !data.failed && dlk_ss_query_send(q, purpose, &r, heard);
  dlk_buf_free(&data);
  return ok;
}

const char *dlk_ss_query_path(struct dlk_ss_query *q, const char *name) {
  return dlk_ss_path(&q->path, q->path_len, name);
}

bool dlk_ss_query_get(struct dlk_ss_query *q, size_t place,
                      dlk_ss_heard *heard) {
  struct dlk_ss_request r = {.verb = DLK_SS_READ};
  r.path = dlk_ss_query_path(q, q->queue.at[place].name);
  return r.path && dlk_ss_query_send(q, DLK_SS_FOR_READ, &r, heard);
}

bool dlk_ss_query_keep(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  q->names = dlk_ss_names_copy(r->names, r->count);
  q->count = q->names ? r->count : 0;
  return q->names != NULL;
}

/* Without the right to write, possible leftovers count as held. */
static void on_time(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  if (r->rc == DLK_SS_OK)
    dlk_ss_clock_heard(q->store, r, r->stat.mtime_ms);
  dlk_ss_query_again(q);
}

bool dlk_ss_query_read(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  struct dlk_ss_request clock = {.verb = DLK_SS_CLOCK};
  bool asks = false;
  bool ok = dlk_ss_query_keep(q, r) &&
            dlk_ss_queue_read(&q->queue, q->names, q->count);
  if (ok) {
    dlk_ss_standins_end(q->member.session, NULL, &q->queue);
    for (size_t i = 0; i < q->queue.count && !q->asked_time; i++)
      asks |= q->queue.at[i].until_ms > 0;
  }
  if (ok && asks) {
    q->asked_time = true;
    clock.path = dlk_ss_query_path(q, NULL);
    ok =
        clock.path && dlk_ss_query_send(q, DLK_SS_FOR_WATCHED, &clock, on_time);
  }
  if (!ok)
    dlk_ss_query_end(q, DLK_UNAVAILABLE, NULL);
  return ok && !asks;
}

bool dlk_ss_query_list(struct dlk_ss_query *q, const char *path,
                       dlk_ss_heard *heard) {
  struct dlk_ss_request list = {
      .verb = DLK_SS_LIST, .path = path, .fresh = true};
  return path && dlk_ss_query_send(q, DLK_SS_FOR_READ, &list, heard);
}

/* ---- ping, locked ---- */

static void on_ping(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  double seconds = (double)(dlk_ss_now(q->store) - r->sent) / 1e9;
  dlk_ss_query_finish(q, dlk_value_number(seconds));
}

bool dlk_ss_ping_start(struct dlk_ss_query *q) {
  struct dlk_ss_request r = {.verb = DLK_SS_PING};
  return dlk_ss_query_send(q, DLK_SS_FOR_READ, &r, on_ping);
}

static void on_named(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  if (r->rc == DLK_SS_OK)
    dlk_ss_keep_holder(q->op, r);
  dlk_ss_query_finish(q, dlk_value_bool(true));
}

static void on_locked(struct dlk_ss_query *q, const struct dlk_ss_reply *r) {
  if (r->rc == DLK_SS_OK && !dlk_ss_query_read(q, r))
    return;
  bool locked = q->queue.count > 0;
  if (!locked || !q->op->names || !dlk_ss_query_get(q, 0, on_named))
    dlk_ss_query_finish(q, dlk_value_bool(locked));
}

bool dlk_ss_locked_start(struct dlk_ss_query *q) {
  return dlk_ss_query_list(q, dlk_ss_query_path(q, NULL), on_locked);
}

/* ---- with the session ---- */

/* An op for a lease uses its node's session. */
static bool for_lease(const struct dlk_op *op) {
  return op->kind == DLK_OP_GUARD || op->kind == DLK_OP_DOWNGRADE ||
         op->kind == DLK_OP_PUBLISH || op->kind == DLK_OP_DETACH;
}

static void join(struct dlk_ss_query *q) {
  struct dlk_op *op = q->op;
  struct dlk_ss_store *st = q->store;
  struct dlk_ss_session *s = NULL;
  if (op->kind == DLK_OP_ATTACH) /* it is to carry a hold */
    s = dlk_ss_session_pick(&st->sessions);
  else if (!for_lease(op))
    s = dlk_ss_session_any(&st->sessions);
  else if (dlk_ss_holder(op->lease))
    s = dlk_ss_holder(op->lease)->member.session;
  if (!s) {
    free_query(q);
    dlk_ss_done(st, op, for_lease(op) ? DLK_LOST : DLK_UNAVAILABLE);
    return;
  }
  dlk_ss_session_visit(s, &q->member);
  if (s->state == DLK_SS_CONNECTED)
    start(q);
}

static struct dlk_ss_query *query_of(struct dlk_ss_member *m) {
  return DLK_CONTAINER(m, struct dlk_ss_query, member);
}

/* An act sent before we knew of the cut is still to be answered. */
static void resume(struct dlk_ss_member *m) {
  struct dlk_ss_query *q = query_of(m);
  if (q->op && !dlk_ss_only_once(q->purpose))
    start(q);
}

/* A read goes on in the next session; an open act is not repeated. */
static void orphaned(struct dlk_ss_member *m, enum dlk_code code) {
  struct dlk_ss_query *q = query_of(m);
  struct dlk_ss_store *st = q->store;
  struct dlk_op *op = q->op;
  bool open = m->flying > 0 && dlk_ss_only_once(q->purpose);
  m->flying = 0;
  dlk_ss_session_leave(m);
  st->host->timer_clear(st->host, &q->timer);
  q->tag++;
  free_work(q);
  if (op && code == DLK_OK && !open && !st->sessions.stopping) {
    join(q);
    return;
  }
  free_query(q);
  if (op)
    dlk_ss_done(st, op, code == DLK_OK ? DLK_UNAVAILABLE : code);
}

/* The session must not stay for a long watch. A read starts over in the next
 * one; its answers still come to the rest here. Acts, and ops for a lease, end
 * where they began. */
static void retired(struct dlk_ss_member *m) {
  struct dlk_ss_query *q = query_of(m);
  if (!q->op || dlk_ss_only_once(q->purpose) || for_lease(q->op) || q->settling)
    return;
  struct dlk_ss_store *st = q->store;
  struct dlk_op *op = q->op;
  dlk_ss_first *first = q->first;
  dlk_ss_query_detach(q);
  dlk_ss_query_run(st, op, first);
}

/* The list that armed it may be newer than ours. */
static void armed(struct dlk_ss_member *m, const struct dlk_ss_sight *sight) {
  if (sight->list)
    dlk_ss_query_again(query_of(m));
}

static void changed(struct dlk_ss_member *m, bool own, enum dlk_ss_rc rc) {
  (void)own;
  (void)rc;
  dlk_ss_query_again(query_of(m));
}

static const struct dlk_ss_member_type guest = {
    .resume = resume,
    .orphaned = orphaned,
    .retired = retired,
    .armed = armed,
    .changed = changed,
};

void dlk_ss_query_run(struct dlk_ss_store *st, struct dlk_op *op,
                      dlk_ss_first *first) {
  struct dlk_ss_query *q = calloc(1, sizeof *q);
  if (q) {
    dlk_ss_member_init(&q->member, &guest);
    dlk_ss_lock_path(st, &q->path, op->key, op->key_len);
    q->path_len = q->path.len;
  }
  if (!q || q->path.failed) {
    if (q)
      free_query(q);
    dlk_ss_done(st, op, DLK_UNAVAILABLE);
    return;
  }
  q->store = st;
  q->op = op;
  q->first = first;
  q->purpose = DLK_SS_FOR_READ;
  q->timer.fire = timer_fired;
  dlk_ss_op_data(op)->query = q;
  join(q);
}
