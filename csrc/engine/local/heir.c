/* Who may be handed a lock by its holder in this process, and for how many of
 * them fences are asked for: see handoff.c. */
#include "engine/local/heir.h"

#include <string.h>

/* So many fences are set aside at most for those who came along. */
#define FAIR_MAX 256u

void dlk_heir_asks(struct dlk_ticket *t, uint32_t behind) {
  struct dlk_hold *h = t->hold;
  h->lease.handoffs.before = dlk_clock_now();
  dlk_heir_behind(h, behind);
}

void dlk_heir_behind(struct dlk_hold *h, uint32_t behind) {
  if (h->hands_on && !h->unfair)
    h->lease.handoffs.most = behind < FAIR_MAX ? behind : FAIR_MAX;
}

bool dlk_heir_came_along(const struct dlk_hold *from,
                         const struct dlk_ticket *t) {
  return t->op.started < from->lease.handoffs.before;
}

bool dlk_heir_expects(const struct dlk_hold *from, const struct dlk_ticket *t) {
  const struct dlk_hold *to = t->hold;
  if (!from || !to->hands_on || from->lease.ttl != to->lease.ttl ||
      strcmp(from->lease.owner, to->lease.owner) != 0)
    return false;
  return (from->unfair && to->unfair) ||
         (from->lease.handoffs.spare > 0 && dlk_heir_came_along(from, t));
}
