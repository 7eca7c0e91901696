/* The list of a lock's contenders, one for all of a session that ask for it. */
#ifndef DLK_STORE_SESSION_RECIPE_LISTS_H
#define DLK_STORE_SESSION_RECIPE_LISTS_H

#include "store/session/recipe/contender.h"
#include "store/session/recipe/queue.h"

/* Valid during the call only. */
struct dlk_ss_listing {
  enum dlk_ss_rc rc; /* the queue is there only when OK */
  bool due; /* it was sent after the question arose; else see I2 (lists.c) */
  struct dlk_ss_queue *queue;
  size_t place; /* of who is told; queue->count: it does not stand there */
  int64_t sent;
};

/* n wants a list that is sent from now on, `fresh` (driver.h) or not, and is
 * told by n->told, once, unless it forgets the question first. False: no
 * memory. */
bool dlk_ss_lists_ask(struct dlk_ss_contender *n, bool fresh,
                      dlk_ss_told *told);
/* What a list that somebody else asked for says to all of s that wait. False:
 * no memory. */
bool dlk_ss_lists_read(struct dlk_ss_session *s, const struct dlk_ss_reply *r);

/* What a session keeps of them; over: nothing is answered any more. */
void dlk_ss_lists_opened(struct dlk_ss_session *s);
void dlk_ss_lists_over(struct dlk_ss_session *s);

#endif
