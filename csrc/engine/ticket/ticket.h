/* See ticket.c. */
#ifndef DLK_ENGINE_TICKET_TICKET_H
#define DLK_ENGINE_TICKET_TICKET_H

#include "engine/hold/lease.h"

/* How far a ticket is, by set_state (request.c):
 *
 *   OURS -> SUBMITTED          the store gets it
 *   SUBMITTED -> OURS          the store is done: it ends, or is tried again
 *   OURS -> ENDED              it ends
 *   SUBMITTED -> LATE          its caller is told, though the store has it yet
 *   LATE -> RETURNED -> ENDED  then the store is done too
 *
 * From LATE on its result does not change. */
enum dlk_ticket_state {
  DLK_TICKET_OURS,
  DLK_TICKET_SUBMITTED,
  DLK_TICKET_LATE,
  DLK_TICKET_RETURNED,
  DLK_TICKET_ENDED,
  DLK_TICKET_DONE = DLK_TICKET_LATE
};

/* What becomes of a lease, or of a detach's string. Any thread may take or
 * abandon an OPEN one; the engine gives back what is ABANDONED, or what was
 * told otherwise. */
enum dlk_fate {
  DLK_FATE_OPEN,
  DLK_FATE_TAKEN,
  DLK_FATE_ABANDONED,
  DLK_FATE_GIVEN_BACK
};

/* A ticket's place in a local queue, by `stand` (local_queue.c):
 *
 *   NONE -> WAITS              it waits behind others     dlk_local_join
 *   NONE -> HEAD               it began the queue         dlk_local_join
 *   WAITS -> HEAD              its turn has come          dlk_local_advance
 *   WAITS -> LATE              its time is over           dlk_local_late
 *   HEAD -> LATE               the same, and the store    dlk_local_late_head
 *                              has named no holder
 *   NONE -> ASKS               it is made to ask          ask_store
 *   HEAD -> NONE               the store let go of it     dlk_local_done
 *   WAITS, LATE, ASKS -> NONE  it ended                   dlk_local_gone */
enum dlk_place {
  DLK_PLACE_NONE,
  DLK_PLACE_WAITS,
  DLK_PLACE_HEAD,
  DLK_PLACE_LATE, /* until the store has answered */
  DLK_PLACE_ASKS  /* the store, for the LATE ones */
};

struct dlk_ticket {
  struct dlk_op op; /* first: the store's view */
  int64_t withdrawal;
  struct dlk_engine *engine;
  atomic_int refs;
  atomic_int state, fate;
  enum dlk_task task;
  uint32_t user;
  bool owned;                      /* by a scope */
  atomic_int wanted;               /* a cancel's code */
  struct dlk_ticket *_Atomic ends; /* with this one */
  struct dlk_hold *hold;
  struct dlk_post start, cancel;
  struct dlk_timer timer;
  struct dlk_list link; /* in work.ops, or a hold's list */
  struct dlk_completion completion;
  struct dlk_local_queue *queue;
  enum dlk_place place;
  const struct dlk_error *error;
  size_t size;
};

/* With the caller's and the engine's references; NULL: no memory. The caller
 * sets start, cancel and timer. */
struct dlk_ticket *dlk_ticket_new(struct dlk_engine *e,
                                  const struct dlk_request *r);
bool dlk_ticket_makes_hold(const struct dlk_ticket *t);
const char *dlk_ticket_word(const struct dlk_ticket *t);

static inline bool dlk_ticket_is(const struct dlk_ticket *t,
                                 enum dlk_op_kind kind) {
  return t->task == DLK_TASK_OP && t->op.kind == kind;
}

static inline bool dlk_ticket_is_abandoned(const struct dlk_ticket *t) {
  return atomic_load(&t->fate) == DLK_FATE_ABANDONED;
}

/* False: another change came first. */
static inline bool dlk_ticket_decide(struct dlk_ticket *t, enum dlk_fate from,
                                     enum dlk_fate to) {
  int expected = (int)from;
  return atomic_compare_exchange_strong(&t->fate, &expected, (int)to);
}

/* A lease, or a detach's string. */
bool dlk_ticket_gives(const struct dlk_ticket *t);
void dlk_ticket_drop_ref(struct dlk_ticket *t);
/* t is done, so its `ends` is cancelled. */
void dlk_ticket_end_linked(struct dlk_ticket *t);
/* error_text.c, for the loop's owner. */
void dlk_ticket_keep_error(struct dlk_ticket *t, const struct dlk_error *err);

/* completion.c, for the loop's owner: t is done. */
void dlk_ticket_tell(struct dlk_ticket *t);
/* Wakes the listener, unless *others tells it. */
void dlk_engine_take_others(struct dlk_engine *e, bool *others);
void dlk_engine_drop_ready(struct dlk_engine *e);

/* A new hold for another try. False: no memory. */
bool dlk_ticket_new_candidate(struct dlk_ticket *t);

#endif
