/* Closing an engine: see close.c. */
#ifndef DLK_ENGINE_TICKET_CLOSE_H
#define DLK_ENGINE_TICKET_CLOSE_H

#include "engine/ticket/ticket.h"

enum dlk_close_state {
  DLK_CLOSE_OPEN,
  DLK_CLOSE_ENDING,
  DLK_CLOSE_DRAINING,
  DLK_CLOSE_STOPPING,
  DLK_CLOSE_STOPPED
};

struct dlk_close {
  struct dlk_engine *engine;
  enum dlk_close_state state;
  struct dlk_list closers; /* tickets that wait for the end */
  struct dlk_list leavers; /* tickets of DLK_TASK_LEAVE: it ends these too */
  struct dlk_post stop_post, left_post;
  atomic_bool told;    /* who waited: whoever takes that joins */
  atomic_bool stopped; /* the store was; everything is told */
  atomic_bool left;    /* to the renewal thread, which has a reference */
};

void dlk_close_init(struct dlk_close *c, struct dlk_engine *e);
/* The ticket of a close, or of a leave, ready to be started. */
struct dlk_ticket *dlk_close_new(struct dlk_engine *e,
                                 const struct dlk_request *r);
struct dlk_ticket *dlk_leave_new(struct dlk_engine *e,
                                 const struct dlk_request *r);
/* By the loop's owner: nothing of the store is left. */
void dlk_close_stopped(struct dlk_engine *e);
/* As dlk_loop_calls, over: the rest was left to the renewal thread, and the
 * store has stopped. */
bool dlk_close_by_thread(struct dlk_loop *l);
/* The loop has ended, and the store. */
bool dlk_close_is_over(const struct dlk_close *c);

#endif
