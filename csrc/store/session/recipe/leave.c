/* A contender on its way out: released, timed out, cancelled, or only tried.
 *
 * Its node is deleted until the server says that it is gone (deleted, or
 * NONODE), or its session is over, which takes the node along. The op that
 * asked for it is answered then, and not before, because until then the node
 * may still bar others; when the server does not answer in time the op ends
 * without that and the deleting goes on behind it, counted by host->busy. A
 * create that is still under way is waited for first: its node can be deleted
 * only once its name is known.
 *
 * NONODE to a release means that the lease was not ours any more, unless an
 * earlier delete of ours went unanswered: then it was that one that did it,
 * for while the session lives nobody else deletes our node but an admin.
 *
 * One who breaks the lock between the call of the release and that delete
 * cannot be told from it, and the release says `true`. So it does on Redis, and
 * it is what the caller may rely on: when he let go of the lease no loss of it
 * was seen and its deadline had not passed (the engine sends nothing for one
 * that is lost), now it is held by us no more, and nobody else's was touched.
 * `lost` would be said after each cut connection, and `with` would take results
 * for worthless that were made under the lock; `unavailable` says that it may
 * still be held, which is known not to be so. Who must know whether a break
 * came first compares fences. */
#include "store/session/recipe/leave.h"

#include <stdlib.h>
#include <string.h>

#include "store/session/format/data.h"
#include "store/session/recipe/standin.h"

void dlk_zk_count_busy(struct dlk_zk_contender *n) {
  struct dlk_host *host = n->store->host;
  bool busy = !n->op && !n->lease && n->step != DLK_ZK_GONE;
  if (busy == n->busy)
    return;
  n->busy = busy;
  host->busy(host, busy ? 1 : -1);
}

static void dispose(struct dlk_zk_contender *n) {
  struct dlk_zk_store *st = n->store;
  dlk_zk_standin_leave(n);
  dlk_zk_contender_forget_name(n);
  dlk_zk_contender_step(n, DLK_ZK_GONE);
  dlk_zk_count_busy(n);
  st->host->timer_clear(st->host, &n->timer);
  free(n->head);
  n->head = NULL;
  if (dlk_zk_session_leave(&n->member))
    free(n);
}

void dlk_zk_contender_end_op(struct dlk_zk_contender *n) {
  struct dlk_op *op = n->op;
  if (!op)
    return;
  dlk_zk_contender_serve(n, NULL);
  if (op->kind == DLK_OP_ACQUIRE)
    dlk_zk_contender_unhold(n);
  dlk_zk_count_busy(n);
  dlk_zk_done(n->store, op, dlk_zk_unanswered(op));
}

void dlk_zk_finish(struct dlk_zk_contender *n, enum dlk_code release_code) {
  struct dlk_zk_store *st = n->store;
  struct dlk_op *op = n->op;
  enum dlk_code code = n->outcome;
  if (op && op->kind == DLK_OP_RELEASE)
    code = n->cut ? DLK_OK : release_code;
  dlk_zk_contender_serve(n, NULL);
  dlk_zk_contender_unhold(n);
  dispose(n);
  if (op)
    dlk_zk_done(st, op, code);
}

void dlk_zk_fail(struct dlk_zk_contender *n, enum dlk_code code) {
  n->outcome = code;
  dlk_zk_finish(n, DLK_OK);
}

void dlk_zk_abandon(struct dlk_zk_contender *n, enum dlk_code code) {
  n->cut = false;
  if (!n->leaving)
    n->outcome = code;
  dlk_zk_session_retire(n->member.session);
  dlk_zk_finish(n, code);
}

static void on_deleted(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
  struct dlk_zk_contender *n = who;
  dlk_zk_contender_confirmed(n, tag, r->rc == DLK_ZK_OK);
  if (!dlk_zk_contender_answered(n))
    return;
  if (tag != n->tag) {
    n->cut |= r->rc != DLK_ZK_NONODE;
    return;
  }
  switch (dlk_zk_meaning(DLK_ZK_FOR_DELETE, r->rc)) {
  case DLK_ZK_ANSWERED:
    dlk_zk_finish(n, DLK_OK);
    break;
  case DLK_ZK_MISSING:
    dlk_zk_finish(n, DLK_LOST);
    break;
  case DLK_ZK_INSIST:
    n->cut = true;
    if (n->op && n->op->ending != DLK_OK)
      dlk_zk_contender_end_op(n);
    dlk_zk_contender_stall(n);
    break;
  default:
    dlk_zk_op_heard(n->op, r);
    dlk_zk_abandon(n, dlk_zk_code(r->rc));
  }
}

void dlk_zk_delete(struct dlk_zk_contender *n) {
  dlk_zk_contender_step(n, DLK_ZK_LEAVING);
  if (!dlk_zk_session_connected(n->member.session))
    return;
  struct dlk_session_request r = {
      .verb = DLK_SESSION_DELETE, .path = n->path, .prune = true};
  int64_t now = dlk_zk_now(n->store);
  if (!n->rests)
    dlk_zk_standin_drop(n);
  if (dlk_zk_contender_send(n, &r, on_deleted))
    dlk_zk_contender_confirms(n, now);
  else
    dlk_zk_contender_stall(n);
}

/* ---- who stood in the way ---- */

void dlk_zk_keep_holder(struct dlk_op *op, const struct dlk_zk_reply *r) {
  struct dlk_zk_data data;
  dlk_zk_data_parse(r->data, r->len, &data);
  size_t len = strnlen(data.owner, DLK_HOLDER_MAX - 1);
  memcpy(op->holder, data.owner, len);
  op->holder[len] = '\0';
}

static void on_head(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
  struct dlk_zk_contender *n = who;
  (void)tag;
  if (dlk_zk_contender_answered(n) && n->op && r->rc == DLK_ZK_OK)
    dlk_zk_keep_holder(n->op, r);
}

/* Leaves right before our delete, so it costs no wait. */
static void ask_head(struct dlk_zk_contender *n) {
  if (!n->op || !n->head || !dlk_zk_session_connected(n->member.session))
    return;
  struct dlk_session_request r = {.verb = DLK_SESSION_READ,
                                  .path = dlk_zk_contender_sibling(n, n->head)};
  if (r.path)
    dlk_zk_contender_send(n, &r, on_head);
}

void dlk_zk_leave(struct dlk_zk_contender *n, enum dlk_code outcome) {
  n->outcome = outcome;
  switch (n->step) {
  case DLK_ZK_PARKED:
  case DLK_ZK_PEEKING:
    dlk_zk_finish(n, DLK_OK);
    return;
  case DLK_ZK_CREATING:
  case DLK_ZK_UNSETTLED:
  case DLK_ZK_SETTLING:
    n->leaving = true;
    break;
  case DLK_ZK_LISTING:
  case DLK_ZK_WAITING:
  case DLK_ZK_READY:
  case DLK_ZK_KEEPING:
  case DLK_ZK_HELD:
    n->store->host->timer_clear(n->store->host, &n->timer);
    dlk_zk_contender_unwatch(n);
    dlk_zk_contender_step_out(n);
    if (outcome == DLK_BUSY || outcome == DLK_TIMEOUT)
      ask_head(n);
    dlk_zk_delete(n);
    break;
  case DLK_ZK_LEAVING:
  case DLK_ZK_GONE:
    break;
  }
  dlk_zk_count_busy(n);
}

/* ---- cancel ---- */

void dlk_zk_contender_cancel(struct dlk_zk_store *st, struct dlk_op *op,
                             struct dlk_zk_contender *n) {
  if (op->kind == DLK_OP_EXTEND) {
    dlk_list_remove(&dlk_zk_op_data(op)->extends);
    dlk_zk_done(st, op, dlk_zk_unanswered(op));
    return;
  }
  if (n->op != op)
    return;
  bool away = !dlk_zk_session_connected(n->member.session);
  if (op->kind == DLK_OP_RELEASE) {
    dlk_zk_contender_end_op(n);
    return;
  }
  if (n->step <= DLK_ZK_PEEKING) {
    dlk_zk_leave(n, dlk_zk_unanswered(op));
    return;
  }
  if (!n->leaving && n->step != DLK_ZK_LEAVING)
    dlk_zk_leave(n, op->ending);
  if (away || !op->wait)
    dlk_zk_contender_end_op(n);
}
