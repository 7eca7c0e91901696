/* Batched local hand-off: a lock goes to the next waiter of the same engine
 * without the store being asked (lock cohorting).
 *
 * A head that was queued locally asks the store for itself and for all who wait
 * behind it: the store sets so many fences aside with the grant (spare). While
 * some are left, a release gives the hold to the first waiter: a new hold with
 * the next fence and the old deadline, which is the same entry on the server.
 * The old hold is RELEASED, for ever.
 *
 * A hold may be handed over (fit) when
 *   1 a fence is left, and the deadline and the horizon are ahead;
 *   2 the entry on the server is sure: not on a claim, and no renewal is missed
 *     (two thirds of the ttl are left, or one third while a renewal is under
 *     way: else a release that crosses a renewal would send the waiters behind
 *     all who stand in the store's queue);
 *   3 it is renewed;
 *   4 no request on it is under way or of unknown outcome: a guarded write that
 *     comes late would find the successor under the same name;
 *   5 nobody asked for the lock politely;
 *   6 the waiter wants the same ttl and owner.
 * Otherwise it is released as any other.
 *
 * I1  Fairness. A client that stood in the store's queue before the head asked
 *     is served before it; one that stands behind came later. The store says
 *     when the first of the later ones came. All who were queued here before
 *     the later of these two moments (handoffs.before) came before everybody
 *     else, and go along. One who was queued later stands in the store's queue
 *     as soon as it is the first here.
 * I2  The bound without fairness (local_handoffs). A later waiter goes along as
 *     well if it does not mind either, until the fences are used up. Then the
 *     lock is released, and the first waiter asks the store.
 * I3  No two hold. The old hold left HELD before the new one enters it; both
 *     lie within the time for which the server keeps the one entry.
 * I4  No waiter is forgotten: whenever the holder changes (set_holder), or
 *     anything else ends an expectation, the queue is looked at. Each end of a
 *     holder goes through dlk_hold_leave. An entry that is gone unnoticed may
 *     give the key to another hold of this engine: then the holder changes.
 *
 * Crossings, all in turn by the loop's owner:
 * - Time-out, cancel or abandoning of the waiter before: it is gone from the
 *   list. After: its hold is given back as a grant that crossed a cancel.
 * - Loss, break, expiry, close, detach, downgrade before: the hold is not held,
 *   or not fit. After: the store's words reach the new hold, which has the name
 *   on the server.
 * - A renewal's late answer reaches the old hold, which ignores it. The new one
 *   believes in less time, and learns of a loss by its own renewal, which is
 *   due soon. A store that hears of a break while it renews takes the spare
 *   fences back.
 * - A second release finds the hold RELEASED.
 * - Close ends the waiters before it gives holds back. */
#include "engine/local/handoff.h"

/* The only place where it changes; whoever waits there may have expected
 * the lock of the one before. */
static void set_holder(struct dlk_local_queue *g, struct dlk_hold *h) {
  if (g->holder)
    g->holder->queue = NULL;
  g->holder = h;
  if (h)
    h->queue = g;
  dlk_local_look(g);
}

void dlk_handoff_held(struct dlk_hold *h, struct dlk_local_queue *g) {
  bool can = (h->asked.unfair || h->lease.handoffs.spare > 0) &&
             h->engine->type->fast.hand_over;
  if (!g)
    g = dlk_local_find(h->engine, h->lease.key, h->lease.key_len, can);
  if (g) /* if it has another holder, that was lost */
    set_holder(g, can ? h : NULL);
}

void dlk_handoff_left(struct dlk_hold *h) {
  if (h->queue)
    set_holder(h->queue, NULL);
}

void dlk_handoff_after(struct dlk_hold *h, enum dlk_op_kind kind,
                       enum dlk_code code) {
  if (code != DLK_OK)
    h->lease.handoffs.spare = 0;
  if (kind == DLK_OP_DOWNGRADE)
    dlk_handoff_left(h); /* readers may come in */
  else if (h->queue)
    dlk_local_look(h->queue); /* its ttl may have changed */
}

static bool fit(struct dlk_hold *h, int64_t now) {
  const struct dlk_lease *lease = &h->lease;
  /* The entry is beyond doubt until its renewal is due, or, while the answer to
   * that is awaited, late. */
  int64_t sure_for = lease->ttl / 3 * (h->renewing ? 2 : 1);
  return lease->handoffs.spare > 0 && !atomic_load(&h->expired) &&
         now < atomic_load(&h->deadline) &&
         now < dlk_time_add(lease->sent, sure_for) &&
         now < atomic_load(&h->engine->held.horizon) && lease->claim == 0 &&
         dlk_hold_is_renewed(h) && h->ops == 0 && !atomic_load(&h->revoked);
}

struct dlk_ticket *dlk_handoff_pass(struct dlk_hold *h, int64_t now) {
  struct dlk_local_queue *g = h->queue;
  if (!g || g->head || !fit(h, now))
    return NULL;
  struct dlk_ticket *t = dlk_local_first(g);
  if (!t || !dlk_local_expects(h, t))
    return NULL;
  bool jumps = !dlk_local_came_along(h, t);
  if (jumps && h->jumps >= t->hold->lease.handoffs.most)
    return NULL;
  struct dlk_engine *e = h->engine;
  struct dlk_hold *next = t->hold;
  struct dlk_lease *from = &h->lease, *to = &next->lease;
  dlk_local_advance(g); /* as if the store had granted it */
  set_holder(g, NULL);
  next->jumps = (uint16_t)(h->jumps + jumps);
  next->handed = true;
  to->handoffs.before = from->handoffs.before;
  to->fence = from->fence + 1;
  to->handoffs.spare = from->handoffs.spare - 1;
  to->sent = from->sent;
  e->type->fast.hand_over(e->store, from, to);
  DLK_TRACE(now, "engine", "hand-off", to->key, to->key_len,
            "in this process, fence %lld to %lld", (long long)from->fence,
            (long long)to->fence);
  dlk_hold_leave(h, now, DLK_HOLD_RELEASED, "it was released");
  dlk_stats_add(&e->stats.handed_over);
  return t;
}
