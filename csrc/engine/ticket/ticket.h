/* A ticket: one request from submission to result. See ticket.c. */
#ifndef DLK_ENGINE_TICKET_TICKET_H
#define DLK_ENGINE_TICKET_TICKET_H

#include "engine/hold/lease.h"

/* Who has a ticket. It changes in request.c (set_state), in one of these ways:
 *
 *   OURS -> SUBMITTED          it is handed to the store
 *   SUBMITTED -> OURS          the store is done: it ends, or is tried again
 *   OURS -> ENDED              it ends
 *   SUBMITTED -> LATE          its caller is told, though the store has it yet
 *   LATE -> RETURNED -> ENDED  then the store is done too
 *
 * From LATE on it is done: its caller may see what came of it, which does not
 * change any more. */
enum dlk_ticket_state {
  DLK_TICKET_OURS,      /* not started, or in a list of ours */
  DLK_TICKET_SUBMITTED, /* the store has it */
  DLK_TICKET_LATE,      /* the store has it, and it is done */
  DLK_TICKET_RETURNED,  /* done, and the store let go */
  DLK_TICKET_ENDED,     /* done, and the engine let go */
  DLK_TICKET_DONE = DLK_TICKET_LATE
};

/* What becomes of what a ticket gives (a lease, the string of a detach). Only
 * OPEN -> TAKEN or ABANDONED, by any thread, and then ABANDONED -> GIVEN_BACK
 * by the engine, which also gives back what nobody was told of. */
enum dlk_fate {
  DLK_FATE_OPEN,
  DLK_FATE_TAKEN,     /* its caller has it */
  DLK_FATE_ABANDONED, /* nobody will take it, or wait for it */
  DLK_FATE_GIVEN_BACK
};

/* Where a ticket stands in the local queue of its key. It changes in
 * local_queue.c (stand):
 *
 *   NONE -> WAITS              it waits behind others     dlk_local_join
 *   NONE -> HEAD               it began the queue         dlk_local_join
 *   WAITS -> HEAD              its turn has come          dlk_local_advance
 *   WAITS -> LATE              its time is over           dlk_local_late
 *   NONE -> ASKS               it is made to ask          ask_store
 *   HEAD -> NONE               the store let go of it     dlk_local_done
 *   WAITS, LATE, ASKS -> NONE  it ended                   dlk_local_gone */
enum dlk_place {
  DLK_PLACE_NONE,
  DLK_PLACE_WAITS,
  DLK_PLACE_HEAD, /* the store has it, or is about to */
  DLK_PLACE_LATE, /* until the store was asked about the key */
  DLK_PLACE_ASKS  /* asks the store for those that are LATE */
};

struct dlk_ticket {
  struct dlk_op op;   /* first: the store hands back &op */
  int64_t withdrawal; /* how long the store may take for a cancel */
  struct dlk_engine *engine;
  atomic_int refs;
  atomic_int state, fate;
  enum dlk_task task;
  uint32_t user;
  bool owned;        /* Lua's thread: a scope ends what it gives */
  atomic_int wanted; /* code of a requested cancel */
  struct dlk_ticket *_Atomic ends; /* to be cancelled when this one is done */
  struct dlk_hold *hold; /* its key, ttl and owner are the ticket's too */
  struct dlk_post start, cancel;
  struct dlk_timer timer;
  struct dlk_list link; /* in work.ops, or a hold's waiters, detaches */
  struct dlk_completion completion;
  struct dlk_local_queue *queue; /* NULL: its place is NONE */
  enum dlk_place place;
  const struct dlk_error *error; /* kept; NULL: none */
  size_t size;                   /* of its memory, arguments and all */
};

/* With two references: the caller's and the engine's. NULL: out of memory. Who
 * starts it says by start, cancel and timer what is done in the loop. */
struct dlk_ticket *dlk_ticket_new(struct dlk_engine *e,
                                  const struct dlk_request *r);
bool dlk_ticket_makes_hold(const struct dlk_ticket *t);
/* What it asks for, in a word. */
const char *dlk_ticket_word(const struct dlk_ticket *t);

static inline bool dlk_ticket_is(const struct dlk_ticket *t,
                                 enum dlk_op_kind kind) {
  return t->task == DLK_TASK_OP && t->op.kind == kind;
}

static inline bool dlk_ticket_is_abandoned(const struct dlk_ticket *t) {
  return atomic_load(&t->fate) == DLK_FATE_ABANDONED;
}

/* True: nobody else changed its fate before. */
static inline bool dlk_ticket_decide(struct dlk_ticket *t, enum dlk_fate from,
                                     enum dlk_fate to) {
  int expected = (int)from;
  return atomic_compare_exchange_strong(&t->fate, &expected, (int)to);
}

/* What comes of it has to be taken: a lease, or the string of a detach. */
bool dlk_ticket_gives(const struct dlk_ticket *t);
void dlk_ticket_drop_ref(struct dlk_ticket *t);
/* t is done: so is the one that ends with it. */
void dlk_ticket_end_linked(struct dlk_ticket *t);
/* error_text.c, by the loop's owner: keeps err with its text. */
void dlk_ticket_keep_error(struct dlk_ticket *t, const struct dlk_error *err);

/* completion.c, by the loop's owner: t is done, so those that wait are told. */
void dlk_ticket_tell(struct dlk_ticket *t);
/* The listener is woken, or by *others, as dlk_ticket_watch. */
void dlk_engine_take_others(struct dlk_engine *e, bool *others);
/* Nobody will ask for what is ready. */
void dlk_engine_drop_ready(struct dlk_engine *e);

/* A new candidate in place of the ticket's hold; false: out of memory. */
bool dlk_ticket_new_candidate(struct dlk_ticket *t);

#endif
