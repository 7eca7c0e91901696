/* min_hold: what stands in for a holder that is gone, and the server's clock.
 */
#ifndef DLK_STORE_SESSION_RECIPE_STANDIN_H
#define DLK_STORE_SESSION_RECIPE_STANDIN_H

#include "store/session/recipe/contender.h"
#include "store/session/recipe/queue.h"

/* One of our writes, sent then, was executed when the server's clock said so.
 */
void dlk_ss_clock_heard(struct dlk_ss_store *st, int64_t sent, int64_t ms);
/* Asks for it, by a write to the lock's node that changes nothing; the answer
 * comes before that of what is sent behind it. */
void dlk_ss_clock_ask(struct dlk_ss_session *s, const char *path, size_t len);
/* ns from now to a time of the server's clock; never too long by more than the
 * clocks differ in rate. */
int64_t dlk_ss_clock_left(struct dlk_ss_store *st, int64_t ms);

/* Whether it was heard lately enough to count on from. */
bool dlk_ss_clock_known(struct dlk_ss_store *st);

/* Has the server make the stand-in of n, which is first in the queue, unless
 * n's node is gone. False: nothing was sent. */
bool dlk_ss_standin_make(struct dlk_ss_contender *n, dlk_ss_answer *answer);
/* It is deleted, if there is one: nobody counts on it. */
void dlk_ss_standin_drop(struct dlk_ss_contender *n);
/* n is gone: its stand-in stays until its time is over, if it `rests`. */
void dlk_ss_standin_leave(struct dlk_ss_contender *n);

/* Takes those whose time is over out of the queue of a lock. path: deletes
 * their nodes as well. */
void dlk_ss_standins_end(struct dlk_ss_store *st, struct dlk_ss_session *s,
                         const char *path, struct dlk_ss_queue *q);
/* The store stops: what rests is left to others. */
void dlk_ss_rests_end(struct dlk_ss_store *st);

#endif
