/* Batched local hand-off: a lock goes to the next waiter of the same engine
 * without the store being asked (lock cohorting).
 *
 * When one that was queued locally goes to the store, it asks for itself and
 * for all who wait behind it: the store sets so many fences aside with the
 * grant (lease->handoffs.spare). While there are some, a release gives the
 * first of these the hold: a new one with the next fence and the old deadline,
 * which is the same entry on the server. The old one is RELEASED, for ever.
 *
 * Why that is fair: whoever stood in the store's queue before the one that
 * asked is served before it. Whoever stands behind it came after it had asked,
 * and the store says with the grant when the first of these came. So all who
 * were queued before the later of these two moments (lease->handoffs.before)
 * came before everybody else. Those who are queued later do not go along: as
 * soon as one of them is the first it stands in the store's queue.
 *
 * Where nobody promised to be fair (local_handoffs, which are the fences that
 * are set aside then) a later one goes along as well, if it does not mind
 * either: it jumps ahead of whoever queues in the store. Such ones stay here
 * while one of them holds. When no fence is left the lock is released, and the
 * first who waits asks the store right behind that: it gets the lock at
 * once, or stands behind everybody who came before. That is the bound for the
 * others.
 *
 * Whether it may be, is seen at the release (fit): the entry on the server is
 * sure (not on a claim, no renewal due or missed, so two thirds of the ttl are
 * left, or one third while a renewal is under way: else the waiters, who have
 * no place in the store's queue, would fall behind all who have one whenever a
 * release crosses a renewal), nobody asked for the lock politely, and nothing
 * that was asked for the hold is under way or of unknown outcome, because a
 * guarded write that comes late would find its successor under the same name.
 * Only a waiter that wants the same (ttl, owner) takes over. Otherwise it is
 * released as any other.
 *
 * Why no two hold: the old hold left HELD before the new one enters it, both
 * by the loop's owner; both lie within the time for which the server keeps the
 * one entry; and the store gives it to nobody else in that time.
 *
 * What can cross, all of it one after the other by the loop's owner:
 * - Time-out, cancel or abandoning of the waiter comes first: it is gone
 *   from the list, the next one is taken. Comes later: it has a hold, and that
 *   is given back as every grant that crossed a cancel, perhaps by a hand-over.
 * - The hold is lost, broken, expired, closed, detached or downgraded before:
 *   it is not HELD or not fit. Later: the store's words reach the new hold,
 *   which has the name on the server; the old one is ignored.
 * - A renewal's answer comes late: the old hold has it, which is not HELD and
 *   ignores it. What was renewed is the one entry, for longer than the new hold
 *   believes; what was lost, broken or asked for meanwhile the new one learns
 *   by its own renewal, which is due at once or soon. A store that hears of a
 *   break while it renews takes the spare fences back.
 * - Released twice (a release, the end of its request, the collector): the
 *   second finds it RELEASED.
 * - Close: those who wait here are ended before holds are given back.
 *
 * Why nobody is forgotten: one who expects the lock has a holder before it.
 * Every end of that holder goes through dlk_hold_leave; and if its entry went
 * on the server (a break that was not heard of, a restart) it may still be held
 * here while the store gives the key to another one of this engine, perhaps to
 * a try that nobody may expect anything of. Each way the queue has another
 * holder then, or none, and whenever that changes (set_holder) it is looked at;
 * so it is by everything else that can end the expectation.
 *
 * local_queue.c says which waiter may be handed a lock. */
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
  bool can = (h->unfair || h->lease.handoffs.spare > 0) &&
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

/* For how long the entry is beyond doubt: until its renewal is due, or, while
 * the answer to that is awaited, late. */
static int64_t sure_for(const struct dlk_hold *h) {
  return h->lease.ttl / 3 * (h->renewing ? 2 : 1);
}

static bool fit(struct dlk_hold *h, int64_t now) {
  const struct dlk_lease *lease = &h->lease;
  return lease->handoffs.spare > 0 && !atomic_load(&h->expired) &&
         now < atomic_load(&h->deadline) &&
         now < dlk_time_add(lease->sent, sure_for(h)) &&
         now < atomic_load(&h->engine->held.horizon) && lease->claim == 0 &&
         h->renew && h->ops == 0 && !atomic_load(&h->revoked);
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
