/* The list of a lock's contenders, one for all of a session that ask for it. */
#ifndef DLK_STORE_SESSION_RECIPE_LISTS_H
#define DLK_STORE_SESSION_RECIPE_LISTS_H

#include "store/session/recipe/contender.h"
#include "store/session/recipe/queue.h"

/* Valid during the call. */
struct dlk_ss_listing {
  enum dlk_ss_rc rc;
  bool due; /* I2 (lists.c) */
  struct dlk_ss_queue *queue;
  size_t place; /* of the contender told; queue->count: not there */
  int64_t sent;
};

/* Sends for a list, `fresh` or not; n->told hears it once, unless n forgets the
 * question. False: no memory. */
bool dlk_ss_lists_ask(struct dlk_ss_contender *n, bool fresh,
                      dlk_ss_told *told);
/* Tells a list that a watch asked for to all of s that wait. False: no memory.
 */
bool dlk_ss_lists_read(struct dlk_ss_session *s, const struct dlk_ss_reply *r);

void dlk_ss_lists_opened(struct dlk_ss_session *s);
void dlk_ss_lists_over(struct dlk_ss_session *s);

#endif
