/* See local_queue.c. For the loop's owner. */
#ifndef DLK_ENGINE_LOCAL_LOCAL_QUEUE_H
#define DLK_ENGINE_LOCAL_LOCAL_QUEUE_H

#include "core/map.h"
#include "engine/ticket/ticket.h"

struct dlk_local_queue {
  struct dlk_map_node node;
  struct dlk_list all;     /* in the engine's list */
  struct dlk_list waiting; /* tickets */
  uint32_t count;          /* of waiting */
  struct dlk_ticket *head; /* or NULL */
  struct dlk_list late;
  struct dlk_ticket *asker; /* or NULL */
  struct dlk_hold *holder;
  struct dlk_post next;
  struct dlk_engine *engine;
  char key[];
};

/* What the queues ask of request.c. */
struct dlk_local_calls {
  /* An unsubmitted ticket, or NULL without memory. */
  struct dlk_ticket *(*make)(struct dlk_engine *e, const struct dlk_request *r);
  void (*submit)(struct dlk_ticket *t);
  void (*finish)(struct dlk_ticket *t, const struct dlk_error *err);
};

struct dlk_local_queues {
  const struct dlk_local_calls *calls;
  struct dlk_list all;
  struct dlk_map map; /* by key */
};

void dlk_local_init(struct dlk_local_queues *q,
                    const struct dlk_local_calls *calls);
void dlk_local_clear(struct dlk_local_queues *q);
/* Returns true if it waits here, to be submitted at its turn. Otherwise it
 * becomes a new queue's head, unless it may only wait `behind` others. */
bool dlk_local_join(struct dlk_ticket *t, bool behind);
/* The store is done with it. */
void dlk_local_done(struct dlk_ticket *t);
/* It ended while it waited or asked here. */
void dlk_local_gone(struct dlk_ticket *t);
/* Its time is over: it ends with the store's answer, or without one in time. */
void dlk_local_late(struct dlk_ticket *t);
/* Ends those of the user, or all (0). */
void dlk_local_end_all(struct dlk_engine *e, uint32_t user);
struct dlk_ticket *dlk_local_first(const struct dlk_local_queue *g);
/* Makes the first waiter, which must exist, the head. */
struct dlk_ticket *dlk_local_advance(struct dlk_local_queue *g);
/* Whether t was queued when the holder, or one before it, went to the store. */
bool dlk_local_came_along(const struct dlk_hold *from,
                          const struct dlk_ticket *t);
/* Whether t may wait for the holder's lock (NULL: none) instead of in the
 * store's queue. */
bool dlk_local_expects(const struct dlk_hold *from, const struct dlk_ticket *t);
/* Returns a key's queue, or NULL; `make` makes one, if there is memory. */
struct dlk_local_queue *dlk_local_find(struct dlk_engine *e, const char *key,
                                       size_t key_len, bool make);
/* Submits the first waiter soon, unless the queue is at rest. */
void dlk_local_look(struct dlk_local_queue *g);

#endif
