/* A hold: one lease that we have, or had. See lease.c. */
#ifndef DLK_ENGINE_HOLD_LEASE_H
#define DLK_ENGINE_HOLD_LEASE_H

#include "engine/state.h"

enum dlk_hold_state {
  DLK_HOLD_CANDIDATE, /* asked for */
  DLK_HOLD_HELD,
  DLK_HOLD_RELEASING, /* a release is under way */
  DLK_HOLD_RELEASED,
  DLK_HOLD_LOST,
  DLK_HOLD_DETACHED /* given up to whoever has the string */
};

struct dlk_local_queue;

struct dlk_hold {
  struct dlk_lease lease; /* first: the store hands back &lease */
  struct dlk_engine *engine;
  atomic_int refs, state;
  atomic_int handles;   /* not given up; the last one stays counted */
  atomic_bool given_up; /* its first handle was */
  atomic_bool revoked;
  atomic_bool expired;  /* somebody saw the deadline pass: never held again */
  atomic_bool dropping; /* release_later was called */
  atomic_bool given;    /* to somebody who may count on it */
  bool owed;            /* its release could not be allocated: try again */
  bool renew, renewing;
  bool renews;      /* as asked for; constant */
  bool provisional; /* likewise: to take it is not to be given it */
  int ops;          /* requests on it that the store has */
  int extending;    /* EXTENDs that the store has; it is not renewed then */
  int64_t cut_to;   /* held no longer than that: one of them may
                       have been for less than is left */
  /* handoff.c */
  struct dlk_local_queue *queue; /* it is its holder */
  bool hands_on : 1;             /* as asked for: it may be handed on locally */
  bool unfair : 1; /* likewise, before those who came earlier elsewhere */
  bool handed : 1; /* it came so, and was not renewed since */
  bool named : 1;  /* its owner was given, and is not the engine's name */
  uint16_t jumps;  /* how often it went before others */
  uint32_t size;   /* of its memory, the store's bytes and texts too */
  /* Copies of lease.ttl and lease.want for other threads. */
  _Atomic int64_t deadline, ttl;
  _Atomic uint64_t want; /* units << 32 | cap */
  const char *_Atomic ended;
  int64_t max_hold, max_end; /* max_end: constant once granted */
  int64_t granted_at;
  struct dlk_due due;       /* in the loop's batch: its renewal, or its end */
  struct dlk_list link;     /* in held.list while HELD */
  struct dlk_list waiters;  /* wait_lost tickets */
  struct dlk_list detaches; /* tickets, until `ops` is 0 */
  struct dlk_post drop;     /* its last handle: release_later, or collected */
  uint64_t id;              /* unique in the process */
  uint32_t user;
};

/* What a hold asks of those who know requests (dispatch.c). */
struct dlk_lease_calls {
  /* It is HELD no longer, but `state`: to be told to all whom it concerns. */
  void (*left)(struct dlk_hold *h, enum dlk_hold_state state);
  /* It is HELD and to be released. True: it was handed on instead. */
  bool (*pass)(struct dlk_hold *h);
  /* Starts a release nobody waits for; false when out of memory. */
  bool (*release)(struct dlk_hold *h);
};

/* A hold that is handed over and is held for so long is renewed: for the rest
 * of its ttl (on a claim: for a whole one), and for what the store shows of its
 * holder. */
#define DLK_HANDED_RENEW (50 * DLK_MS)

static inline bool dlk_hold_is_held(const struct dlk_hold *h) {
  return atomic_load(&h->state) == DLK_HOLD_HELD;
}

struct dlk_hold *dlk_hold_new(struct dlk_engine *e,
                              const struct dlk_request *r);
/* A candidate that asks for what the old one asked for. */
struct dlk_hold *dlk_hold_again(const struct dlk_hold *old);
/* By the loop's owner, as all that follows. The store granted it: HELD from now
 * on. False when less than `least` ns of the ttl are left: too little to be of
 * use. */
bool dlk_hold_begin(struct dlk_hold *h, int64_t now, int64_t least);
void dlk_hold_extended(struct dlk_hold *h, int64_t ttl);
/* Around an EXTEND: before the store has it, and when it is over (of a HELD
 * one; done: it took effect). */
void dlk_hold_extending(struct dlk_hold *h, int64_t ttl);
void dlk_hold_extend_over(struct dlk_hold *h, int64_t ttl, bool done);
/* Ends a HELD one; why: a constant. */
void dlk_hold_leave(struct dlk_hold *h, int64_t now, enum dlk_hold_state state,
                    const char *why);
/* Its release is over, with that code: a RELEASING one is RELEASED, or LOST. */
void dlk_hold_release_over(struct dlk_hold *h, enum dlk_code code);
/* Gives it back to the store in the background, whatever it was. */
void dlk_hold_give_back(struct dlk_hold *h);
/* Looks at the clock: true while our own deadline has not passed; ends it
 * otherwise. */
bool dlk_hold_check(struct dlk_hold *h, int64_t now);
void dlk_hold_schedule(struct dlk_hold *h);
/* The engine must look at it at that time. */
void dlk_hold_due(struct dlk_hold *h, int64_t at);
void dlk_hold_set_want(struct dlk_hold *h, struct dlk_want want);
/* An event for whoever hears of it. */
void dlk_hold_tell(const struct dlk_hold *h, const char *kind,
                   const char *text);

#endif
