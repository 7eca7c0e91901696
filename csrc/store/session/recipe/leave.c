/* A contender on its way out: released, timed out, cancelled, or only tried.
 *
 * L1. Its node is deleted until the servers say gone or the session ends. Only
 *     then its op is answered: until then the node may bar others. An op that
 *     gets no answer in time ends, and the deleting goes on, counted by
 *     host->busy.
 * L2. A create under way is waited for: deleting needs the node's name.
 * L3. NONODE to a release means `lost`, unless an earlier delete went
 *     unanswered: that one did it.
 * L4. A break after the call of release looks the same: release says `true`.
 *     The caller let go before any loss was seen, and the lock is ours no more.
 *     `lost` after each cut would devalue results made under the lock;
 *     `unavailable` would say that it may still be held. */
#include "store/session/recipe/contender.h"

#include <stdlib.h>
#include <string.h>

#include "store/session/format/data.h"

/* Tells the host whether n works in the background. */
static void count_busy(struct dlk_ss_contender *n) {
  struct dlk_host *host = n->store->host;
  bool busy = !n->op && !n->lease && n->step != DLK_SS_GONE;
  if (busy == n->busy)
    return;
  n->busy = busy;
  host->busy(host, busy ? 1 : -1);
}

void dlk_ss_contender_end_op(struct dlk_ss_contender *n) {
  struct dlk_op *op = n->op;
  if (!op)
    return;
  dlk_ss_contender_serve(n, NULL);
  if (op->kind == DLK_OP_ACQUIRE)
    dlk_ss_contender_unhold(n);
  count_busy(n);
  dlk_ss_done(n->store, op, dlk_ss_unanswered(op));
}

void dlk_ss_finish(struct dlk_ss_contender *n, enum dlk_code release_code) {
  struct dlk_ss_store *st = n->store;
  struct dlk_op *op = n->op;
  enum dlk_code code = n->outcome;
  if (op && op->kind == DLK_OP_RELEASE)
    code = n->cut ? DLK_OK : release_code;
  dlk_ss_contender_serve(n, NULL);
  dlk_ss_contender_unhold(n);
  dlk_ss_standin_leave(n);
  dlk_ss_contender_forget_name(n);
  dlk_ss_contender_step(n, DLK_SS_GONE);
  count_busy(n);
  st->host->timer_clear(st->host, &n->timer);
  free(n->head);
  n->head = NULL;
  if (dlk_ss_session_leave(&n->member))
    free(n);
  if (op)
    dlk_ss_done(st, op, code);
}

void dlk_ss_fail(struct dlk_ss_contender *n, enum dlk_code code) {
  n->outcome = code;
  dlk_ss_finish(n, DLK_OK);
}

void dlk_ss_abandon(struct dlk_ss_contender *n, enum dlk_code code) {
  n->cut = false;
  if (!n->leaving)
    n->outcome = code;
  dlk_ss_session_retire(n->member.session);
  dlk_ss_finish(n, code);
}

static void on_deleted(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  struct dlk_ss_contender *n = who;
  dlk_ss_contender_confirmed(n, tag, r->rc == DLK_SS_OK);
  if (!dlk_ss_contender_answered(n))
    return;
  if (tag != n->tag) {
    n->cut |= r->rc != DLK_SS_NONODE;
    return;
  }
  switch (dlk_ss_meaning(DLK_SS_FOR_DELETE, r->rc)) {
  case DLK_SS_ANSWERED:
    dlk_ss_finish(n, DLK_OK);
    break;
  case DLK_SS_MISSING:
    dlk_ss_finish(n, DLK_LOST);
    break;
  case DLK_SS_INSIST:
    n->cut = true;
    if (n->op && n->op->ending != DLK_OK)
      dlk_ss_contender_end_op(n);
    dlk_ss_contender_stall(n);
    break;
  default:
    dlk_ss_op_heard(n->op, r);
    dlk_ss_abandon(n, dlk_ss_code(r->rc));
  }
}

void dlk_ss_delete(struct dlk_ss_contender *n) {
  dlk_ss_contender_step(n, DLK_SS_LEAVING);
  if (!dlk_ss_session_connected(n->member.session))
    return;
  struct dlk_ss_request r = {
      .verb = DLK_SS_DELETE, .path = n->path, .prune = true};
  int64_t now = dlk_ss_now(n->store);
  if (!n->rests)
    dlk_ss_standin_drop(n);
  if (dlk_ss_contender_send(n, &r, on_deleted))
    dlk_ss_contender_confirms(n, DLK_SS_DELETE, now);
  else
    dlk_ss_contender_stall(n);
}

void dlk_ss_keep_holder(struct dlk_op *op, const struct dlk_ss_reply *r) {
  struct dlk_ss_data data;
  dlk_ss_data_parse(r->data, r->len, &data);
  size_t len = strnlen(data.owner, DLK_HOLDER_MAX - 1);
  memcpy(op->holder, data.owner, len);
  op->holder[len] = '\0';
}

static void on_head(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  struct dlk_ss_contender *n = who;
  (void)tag;
  if (dlk_ss_contender_answered(n) && n->op && r->rc == DLK_SS_OK)
    dlk_ss_keep_holder(n->op, r);
}

/* Goes out right before our delete: costs no wait. */
static void ask_head(struct dlk_ss_contender *n) {
  if (!n->op || !n->head || !dlk_ss_session_connected(n->member.session))
    return;
  struct dlk_ss_request r = {.verb = DLK_SS_READ,
                             .path = dlk_ss_contender_sibling(n, n->head)};
  if (r.path)
    dlk_ss_contender_send(n, &r, on_head);
}

void dlk_ss_leave(struct dlk_ss_contender *n, enum dlk_code outcome) {
  n->outcome = outcome;
  switch (n->step) {
  case DLK_SS_PARKED:
  case DLK_SS_PEEKING:
    dlk_ss_finish(n, DLK_OK);
    return;
  case DLK_SS_CREATING:
  case DLK_SS_UNSETTLED:
  case DLK_SS_SETTLING:
    n->leaving = true;
    break;
  case DLK_SS_LISTING:
  case DLK_SS_WAITING:
  case DLK_SS_READY:
  case DLK_SS_KEEPING:
  case DLK_SS_HELD:
    n->store->host->timer_clear(n->store->host, &n->timer);
    dlk_ss_contender_unwatch(n);
    dlk_ss_contender_step_out(n);
    if (outcome == DLK_BUSY || outcome == DLK_TIMEOUT)
      ask_head(n);
    dlk_ss_delete(n);
    break;
  case DLK_SS_LEAVING:
  case DLK_SS_GONE:
    break;
  }
  count_busy(n);
}

void dlk_ss_contender_cancel(struct dlk_ss_store *st, struct dlk_op *op,
                             struct dlk_ss_contender *n) {
  if (op->kind == DLK_OP_EXTEND) {
    dlk_list_remove(&dlk_ss_op_data(op)->extends);
    dlk_ss_done(st, op, dlk_ss_unanswered(op));
    return;
  }
  if (n->op != op)
    return;
  bool away = !dlk_ss_session_connected(n->member.session);
  if (op->kind == DLK_OP_RELEASE) {
    dlk_ss_contender_end_op(n);
    return;
  }
  if (n->step <= DLK_SS_PEEKING) {
    dlk_ss_leave(n, dlk_ss_unanswered(op));
    return;
  }
  if (!n->leaving && n->step != DLK_SS_LEAVING)
    dlk_ss_leave(n, op->ending);
  if (away || !op->wait)
    dlk_ss_contender_end_op(n);
}
