/* See handoff.c. For the loop's owner. */
#ifndef DLK_ENGINE_LOCAL_HANDOFF_H
#define DLK_ENGINE_LOCAL_HANDOFF_H

#include "engine/local/local_queue.h"

/* The hold was granted; its ticket waited at g, or g is NULL. */
void dlk_handoff_held(struct dlk_hold *h, struct dlk_local_queue *g);
void dlk_handoff_left(struct dlk_hold *h);
/* A request on the hold ended: it may not be fit now. */
void dlk_handoff_after(struct dlk_hold *h, enum dlk_op_kind kind,
                       enum dlk_code code);
/* Hands a held hold over, in place of its release. Returns the ticket that has
 * the lock now, or NULL. */
struct dlk_ticket *dlk_handoff_pass(struct dlk_hold *h, int64_t now);

#endif
