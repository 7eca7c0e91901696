/* Batched local hand-off: see handoff.c. All by the loop's owner. */
#ifndef DLK_ENGINE_HANDOFF_H
#define DLK_ENGINE_HANDOFF_H

#include "engine/local_queue.h"

/* A ticket that was queued locally goes to the store; behind it are so many. */
void dlk_handoff_asks(struct dlk_ticket *t, uint32_t behind);
/* So many wait now behind the one that went to the store for h. */
void dlk_handoff_behind(struct dlk_hold *h, uint32_t behind);
/* The hold was granted; its ticket waited at g, if that is not NULL. */
void dlk_handoff_held(struct dlk_hold *h, struct dlk_local_queue *g);
/* It is held no longer. */
void dlk_handoff_left(struct dlk_hold *h);
/* What was asked for it ended so: it may not be fit for handing over now. */
void dlk_handoff_after(struct dlk_hold *h, enum dlk_op_kind kind,
                       enum dlk_code code);
/* Whether this one, queued locally, may wait for the holder to hand over to it
 * rather than in the store's queue. */
bool dlk_handoff_expects(const struct dlk_local_queue *g,
                         const struct dlk_ticket *t);
/* The hold is to be released, and is held. True: it was handed over instead,
 * and is released. */
bool dlk_handoff_pass(struct dlk_hold *h);

#endif
