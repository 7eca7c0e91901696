/* See local_queue.c. For the loop's owner. */
#ifndef DLK_ENGINE_LOCAL_LOCAL_QUEUE_H
#define DLK_ENGINE_LOCAL_LOCAL_QUEUE_H

#include "core/map.h"
#include "engine/ticket/ticket.h"

struct dlk_local_queue {
  struct dlk_map_node node;
  struct dlk_list all;
  struct dlk_list waiting;
  uint32_t count;
  struct dlk_ticket *head;
  struct dlk_list late;
  struct dlk_ticket *asker;
  struct dlk_hold *holder;
  struct dlk_post next;
  struct dlk_engine *engine;
  char key[];
};

struct dlk_local_queues {
  struct dlk_list all;
  struct dlk_map map; /* by key */
};

void dlk_local_clear(struct dlk_local_queues *q);
/* True: it waits here for its turn. Else it became the head, unless it may only
 * wait `behind` others. */
bool dlk_local_join(struct dlk_ticket *t, bool behind);
/* The store is done with it. */
void dlk_local_done(struct dlk_ticket *t);
/* It ended, after waiting or asking here. */
void dlk_local_gone(struct dlk_ticket *t);
/* Its time is over: it ends with the store's answer, or without one in time. */
void dlk_local_late(struct dlk_ticket *t);
/* The same for a head that the store let go without the holder's name. */
bool dlk_local_late_head(struct dlk_ticket *t);
/* user 0: all. */
void dlk_local_end_all(struct dlk_engine *e, uint32_t user);
struct dlk_ticket *dlk_local_first(const struct dlk_local_queue *g);
/* The first waiter, which must exist, is the head now. */
struct dlk_ticket *dlk_local_advance(struct dlk_local_queue *g);
/* It was queued when the holder's line went to the store. */
bool dlk_local_came_along(const struct dlk_hold *from,
                          const struct dlk_ticket *t);
/* It may wait for from's lock instead of in the store's queue. */
bool dlk_local_expects(const struct dlk_hold *from, const struct dlk_ticket *t);
/* NULL: none, or no memory to `make` one. */
struct dlk_local_queue *dlk_local_find(struct dlk_engine *e, const char *key,
                                       size_t key_len, bool make);
/* Submits the first waiter soon, if it is due. */
void dlk_local_look(struct dlk_local_queue *g);

#endif
