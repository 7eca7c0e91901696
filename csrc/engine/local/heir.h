/* Who may be handed a lock in this process: see heir.c. By the loop's owner. */
#ifndef DLK_ENGINE_LOCAL_HEIR_H
#define DLK_ENGINE_LOCAL_HEIR_H

#include "engine/ticket/ticket.h"

/* A ticket that was queued locally goes to the store; behind it are so many. */
void dlk_heir_asks(struct dlk_ticket *t, uint32_t behind);
/* So many wait now behind the one that went to the store for h. */
void dlk_heir_behind(struct dlk_hold *h, uint32_t behind);
/* Whether t was queued when the one that got the lock, or that before it, went
 * to the store. */
bool dlk_heir_came_along(const struct dlk_hold *from,
                         const struct dlk_ticket *t);
/* Whether t, queued locally, may wait for the holder (NULL: there is none) to
 * hand over to it rather than in the store's queue. */
bool dlk_heir_expects(const struct dlk_hold *from, const struct dlk_ticket *t);

#endif
