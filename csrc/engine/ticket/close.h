/* See close.c. */
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
  struct dlk_list closers;
  struct dlk_list leavers; /* tickets of DLK_TASK_LEAVE */
  struct dlk_post stop_post, left_post;
  atomic_bool told;    /* closers are done: one of them joins */
  atomic_bool stopped; /* the store has stopped */
  atomic_bool left;    /* the join came first; that thread has a reference */
};

void dlk_close_init(struct dlk_close *c, struct dlk_engine *e);
/* Makes a new ticket that of a close or a leave. */
void dlk_close_prepare(struct dlk_ticket *t);
void dlk_close_stopped(struct dlk_engine *e);
bool dlk_close_by_thread(struct dlk_loop *l);
bool dlk_close_is_over(const struct dlk_close *c);

#endif
