/* The local queue of a key: see local_queue.c. All by the loop's owner. */
#ifndef DLK_ENGINE_LOCAL_LOCAL_QUEUE_H
#define DLK_ENGINE_LOCAL_LOCAL_QUEUE_H

#include "core/map.h"
#include "engine/ticket/ticket.h"

/* Who of this engine waits for a key, and who might hand it over. */
struct dlk_local_queue {
  struct dlk_map_node node;
  struct dlk_list all;      /* in the engine's list of them */
  struct dlk_list waiting;  /* tickets */
  uint32_t count;           /* of these */
  struct dlk_ticket *head;  /* that is HEAD; NULL: none */
  struct dlk_list late;     /* tickets that are LATE */
  struct dlk_ticket *asker; /* that ASKS; NULL: none */
  struct dlk_hold *holder;
  struct dlk_post next;
  struct dlk_engine *engine;
  char key[];
};

/* What the queues ask of those who know requests (request.c). */
struct dlk_local_calls {
  /* A ticket that was not submitted yet; NULL: out of memory. */
  struct dlk_ticket *(*make)(struct dlk_engine *e, const struct dlk_request *r);
  /* Hands it to the store. */
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
/* True: it waits here, and will be submitted when its turn comes. Where there
 * is no queue it becomes the head of one, but if it is only to wait `behind`
 * others. */
bool dlk_local_join(struct dlk_ticket *t, bool behind);
/* The store is done with it: the next one's turn. */
void dlk_local_done(struct dlk_ticket *t);
/* It ended while it waited here; or it was asked of the store on behalf of
 * those who did. */
void dlk_local_gone(struct dlk_ticket *t);
/* Its time is over while it waits here: it ends when the store has answered, or
 * did not in time. */
void dlk_local_late(struct dlk_ticket *t);
/* Those of that user, or all (0). */
void dlk_local_end_all(struct dlk_engine *e, uint32_t user);
/* The first of those who wait, or NULL. */
struct dlk_ticket *dlk_local_first(const struct dlk_local_queue *g);
/* The first of those who wait, which there is, becomes the head. */
struct dlk_ticket *dlk_local_advance(struct dlk_local_queue *g);
/* Whether t was queued when the holder, or the one before it, went to the
 * store.
 */
bool dlk_local_came_along(const struct dlk_hold *from,
                          const struct dlk_ticket *t);
/* Whether t, queued locally, may wait for the holder (NULL: there is none) to
 * hand over to it rather than in the store's queue. */
bool dlk_local_expects(const struct dlk_hold *from, const struct dlk_ticket *t);
/* The queue of a key, if there is one; with `make` there is, but for lack of
 * memory. */
struct dlk_local_queue *dlk_local_find(struct dlk_engine *e, const char *key,
                                       size_t key_len, bool make);
/* Sees to it that somebody waits in the store's queue, if that is due. */
void dlk_local_look(struct dlk_local_queue *g);

#endif
