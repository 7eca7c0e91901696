/* A contender on its way out. */
#ifndef DLK_STORE_SESSION_RECIPE_LEAVE_H
#define DLK_STORE_SESSION_RECIPE_LEAVE_H

#include "store/session/recipe/contender.h"

/* Takes n out of the queue; its op ends with `outcome` once it is gone. */
void dlk_ss_leave(struct dlk_ss_contender *n, enum dlk_code outcome);
void dlk_ss_delete(struct dlk_ss_contender *n);
/* It is gone: answers its op and frees it. */
void dlk_ss_finish(struct dlk_ss_contender *n, enum dlk_code release_code);
/* It never was there, and cannot be: its op ends with this code. */
void dlk_ss_fail(struct dlk_ss_contender *n, enum dlk_code code);
/* We may not delete it, or not look for it: only the session's end, which is
 * begun, takes away what is there. A release is answered with this code. */
void dlk_ss_abandon(struct dlk_ss_contender *n, enum dlk_code code);
/* Ends its op now, unanswered; what is left goes on in the background. */
void dlk_ss_contender_end_op(struct dlk_ss_contender *n);
void dlk_ss_contender_cancel(struct dlk_ss_store *st, struct dlk_op *op,
                             struct dlk_ss_contender *n);
/* Tells the host whether n has work to do in the background. */
void dlk_ss_count_busy(struct dlk_ss_contender *n);
/* What the node that stands in the way says of its owner goes to the op. */
void dlk_ss_keep_holder(struct dlk_op *op, const struct dlk_ss_reply *r);

#endif
