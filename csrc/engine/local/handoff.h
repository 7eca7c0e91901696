/* Batched local hand-off: see handoff.c. All by the loop's owner. */
#ifndef DLK_ENGINE_LOCAL_HANDOFF_H
#define DLK_ENGINE_LOCAL_HANDOFF_H

#include "engine/local/local_queue.h"

/* The hold was granted; its ticket waited at g, if that is not NULL. */
void dlk_handoff_held(struct dlk_hold *h, struct dlk_local_queue *g);
/* It is held no longer. */
void dlk_handoff_left(struct dlk_hold *h);
/* What was asked for it ended so: it may not be fit for handing over now. */
void dlk_handoff_after(struct dlk_hold *h, enum dlk_op_kind kind,
                       enum dlk_code code);
/* The hold is to be released, and is held. NULL: it cannot be handed over.
 * Otherwise it is released, and this ticket is granted its lock. */
struct dlk_ticket *dlk_handoff_pass(struct dlk_hold *h, int64_t now);

#endif
