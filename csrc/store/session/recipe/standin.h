/* min_hold: stand-ins, and the servers' clock. */
#ifndef DLK_STORE_SESSION_RECIPE_STANDIN_H
#define DLK_STORE_SESSION_RECIPE_STANDIN_H

#include "store/session/recipe/contender.h"
#include "store/session/recipe/queue.h"

/* Our write, sent then, was executed at ms. */
void dlk_ss_clock_heard(struct dlk_ss_store *st, int64_t sent, int64_t ms);
/* Asks by a write to the lock's folder; the answer comes before those sent
 * behind it. */
void dlk_ss_clock_ask(struct dlk_ss_session *s, const char *path, size_t len);
/* ns until a time of the servers' clock; too long only by the clocks'
 * difference in rate. */
int64_t dlk_ss_clock_left(struct dlk_ss_store *st, int64_t ms);

/* Heard lately enough. */
bool dlk_ss_clock_known(struct dlk_ss_store *st);

/* Makes the stand-in of n, which is first, unless n's node is gone. False:
 * nothing was sent. */
bool dlk_ss_standin_make(struct dlk_ss_contender *n, dlk_ss_answer *answer);
/* Deletes it. */
void dlk_ss_standin_drop(struct dlk_ss_contender *n);
/* n is gone: its stand-in stays until its end if it `rests`. */
void dlk_ss_standin_leave(struct dlk_ss_contender *n);

/* Takes those past their end out of the queue. path: deletes their nodes, too.
 */
void dlk_ss_standins_end(struct dlk_ss_store *st, struct dlk_ss_session *s,
                         const char *path, struct dlk_ss_queue *q);
/* The store stops: others end what rests. */
void dlk_ss_rests_end(struct dlk_ss_store *st);

#endif
