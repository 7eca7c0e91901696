/* Local hand-off: a lock goes to the next waiter of its engine without a word
 * to the store (lock cohorting, in batches).
 *
 * A head that was queued here asks the store for spare fences, for all waiters
 * behind it. While some are left, a release gives the hold to the first waiter:
 * a new hold with the next fence and the old deadline, the same entry on the
 * server.
 *
 * A hold may be handed over (fit) when
 *   1 a fence is left, and the deadline and the horizon are ahead;
 *   2 the entry is sure: not on a claim, and no renewal is missed (two thirds
 *     of the ttl are left, or one third while a renewal is under way: else a
 *     release that crosses it would send our waiters to the end of the
 *     store's queue);
 *   3 it is renewed;
 *   4 no request on it is under way or of unknown outcome: a late guarded
 *     write would find the successor under the same name;
 *   5 it is not revoked;
 *   6 the waiter wants the same ttl and owner.
 *
 * I1  Fairness: clients in the store's queue before the head asked come before
 *     our waiters; the store says when the first later one came. Waiters queued
 *     here before the later of the two times (handoffs.before) go along. A
 *     later one stands in the store's queue once it is first here.
 * I2  Without fairness (local_handoffs) a later waiter goes along, too, if it
 *     does not mind either, while fences are left.
 * I3  No two hold: the old hold leaves HELD before the new one enters it, both
 *     within the server's time for the entry.
 * I4  No waiter is forgotten: each change of the holder (set_holder), and each
 *     end of an expectation, looks at the queue. Each end of a holder passes
 *     dlk_hold_leave. If an entry is gone unnoticed, another hold of this
 *     engine may get the key, and the holder changes.
 *
 * Crossings, in turns of the loop's owner:
 * - A waiter's time-out or cancel before: it left the list. After: its hold is
 *   given back.
 * - Loss, break, expiry, close, detach, downgrade before: the hold is not held,
 *   or not fit. After: the store's words reach the new hold by its name.
 * - A renewal's late answer reaches the old hold, which ignores it. The new one
 *   has an earlier deadline, and its own renewal soon. A store that hears of a
 *   break while it renews takes the spare fences back.
 * - A second release finds the hold RELEASED.
 * - Close ends the waiters before it gives holds back. */
#include "engine/local/handoff.h"

/* Only here the holder changes. The first waiter may have expected its lock. */
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
  if (g) /* its other holder is lost */
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
    dlk_local_look(h->queue); /* its ttl may be another */
}

static bool fit(struct dlk_hold *h, int64_t now) {
  const struct dlk_lease *lease = &h->lease;
  /* fit, 2 */
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
  dlk_local_advance(g);
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
