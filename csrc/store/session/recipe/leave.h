/* A contender on its way out. */
#ifndef DLK_STORE_SESSION_RECIPE_LEAVE_H
#define DLK_STORE_SESSION_RECIPE_LEAVE_H

#include "store/session/recipe/contender.h"

/* Takes n out of the queue; its op ends with `outcome` once the node is gone.
 */
void dlk_ss_leave(struct dlk_ss_contender *n, enum dlk_code outcome);
void dlk_ss_delete(struct dlk_ss_contender *n);
/* The node is gone: answers n's op and frees n. */
void dlk_ss_finish(struct dlk_ss_contender *n, enum dlk_code release_code);
/* The node never was: n's op ends with this code. */
void dlk_ss_fail(struct dlk_ss_contender *n, enum dlk_code code);
/* We may not delete it or look for it: retires the session, whose end takes the
 * node. A release is answered with this code. */
void dlk_ss_abandon(struct dlk_ss_contender *n, enum dlk_code code);
/* Ends n's op unanswered; n goes on in the background. */
void dlk_ss_contender_end_op(struct dlk_ss_contender *n);
void dlk_ss_contender_cancel(struct dlk_ss_store *st, struct dlk_op *op,
                             struct dlk_ss_contender *n);
/* Tells the host whether n works in the background. */
void dlk_ss_count_busy(struct dlk_ss_contender *n);
/* Names the owner of the node in the way. */
void dlk_ss_keep_holder(struct dlk_op *op, const struct dlk_ss_reply *r);

#endif
