/* A ticket: one request from submission to result. See ticket.c. */
#ifndef DLK_ENGINE_TICKET_H
#define DLK_ENGINE_TICKET_H

#include "engine/lease.h"

struct dlk_ticket {
  struct dlk_op op; /* first: the store hands back &op */
  struct dlk_engine *engine;
  struct dlk_engine *listener; /* is told that it is done; often the same */
  atomic_int refs;
  atomic_int done; /* 0 or 1 */
  atomic_bool taken;
  bool submitted;   /* the store has the op */
  bool settled;     /* told and ended: the engine let go */
  bool internal;    /* nobody waits for it */
  bool ends_engine; /* CLOSE, done: whoever takes it joins */
  atomic_bool abandoned;
  bool owned;        /* Lua's thread: a scope ends what it gives */
  atomic_int wanted; /* code of a requested cancel */
  struct dlk_ticket *_Atomic ends; /* to be cancelled when this one is done */
  struct dlk_request request;
  struct dlk_hold *hold;
  struct dlk_post start, cancel;
  struct dlk_timer timer;
  struct dlk_list link; /* in work.ops, or a hold's waiters, detaches */
  struct dlk_completion completion; /* of the listener */
  struct dlk_gate *gate;         /* local_queue.c: parked there, or its head */
  const struct dlk_error *error; /* kept; NULL: none */
  size_t size;                   /* of its memory, arguments and all */
};

/* With two references: the caller's and the engine's. NULL: out of memory. Who
 * starts it says by start, cancel and timer what is done in the loop. */
struct dlk_ticket *dlk_ticket_new(struct dlk_engine *e,
                                  const struct dlk_request *r);
bool dlk_ticket_makes_hold(const struct dlk_ticket *t);
/* What comes of it has to be taken: a lease, or the string of a detach. */
bool dlk_ticket_gives(const struct dlk_ticket *t);
void dlk_ticket_drop_ref(struct dlk_ticket *t);
/* t is done: so is the one that ends with it. */
void dlk_ticket_end_linked(struct dlk_ticket *t);
/* A new candidate in place of the ticket's hold; false: out of memory. */
bool dlk_ticket_new_candidate(struct dlk_ticket *t);

#endif
