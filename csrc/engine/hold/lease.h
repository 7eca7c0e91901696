/* A hold: one lease that we have, or had. See lease.c. */
#ifndef DLK_ENGINE_HOLD_LEASE_H
#define DLK_ENGINE_HOLD_LEASE_H

#include "engine/state.h"

/* How far a hold is. Changed in lease.c, by the loop's owner but for COLLECTED
 * and DROPPING, which any thread may set:
 *
 *   CANDIDATE -> HELD             the store granted it        dlk_hold_begin
 *   HELD -> COLLECTED             its last handle was dlk_hold_collected HELD,
 * COLLECTED -> DROPPING   it is to be given back      ..._release_later these
 * three -> RELEASING      its release is under way    dlk_hold_leave
 *               -> RELEASED       it was handed over          dlk_hold_leave
 *               -> DETACHED       the string has it           dlk_hold_leave
 *               -> LOST           deadline, break, ...        dlk_hold_leave
 *   RELEASING -> RELEASED, LOST   the release is answered     ..._release_over
 *
 * HELD, COLLECTED and DROPPING are held: the store keeps the lock for us. No
 * other bool decides what may come next. `expired` latches in any of them. */
enum dlk_hold_state {
  DLK_HOLD_CANDIDATE,
  DLK_HOLD_HELD,
  DLK_HOLD_COLLECTED, /* not renewed any more, so it ends at its deadline */
  DLK_HOLD_DROPPING,
  DLK_HOLD_RELEASING,
  DLK_HOLD_RELEASED,
  DLK_HOLD_LOST,
  DLK_HOLD_DETACHED
};

struct dlk_local_queue;

struct dlk_hold {
  struct dlk_lease lease; /* first: the store hands back &lease */
  struct dlk_engine *engine;
  atomic_int refs, state;
  atomic_int handles;   /* not given up; the last one stays counted */
  atomic_bool given_up; /* its first handle was */
  atomic_bool revoked;  /* somebody asked for it */
  atomic_bool expired;  /* its deadline was seen to pass: never held again */
  atomic_bool given;    /* to a caller that may count on it */
  struct {              /* what was asked for: constant */
    bool renew, provisional;
    bool hands_on; /* it may be handed on locally */
    bool unfair;   /* likewise, before those that came earlier elsewhere */
    bool owner;    /* the owner is not the engine's name */
  } asked;
  bool owed;      /* its release could not be allocated: try again */
  bool renewing;  /* the store has a renewal of it */
  bool handed;    /* it was handed over, and was not renewed since */
  uint16_t jumps; /* how often it went before others */
  uint32_t size;  /* of its memory, the store's bytes and texts too */
  int ops;        /* requests on it that the store has */
  int extending;  /* EXTENDs that the store has; it is not renewed then */
  int64_t cut_to; /* held no longer than that: one of them may have been for
                     less than is left */
  struct dlk_local_queue *queue; /* handoff.c: it is its holder */
  /* Copies of lease.ttl and lease.want for other threads. */
  _Atomic int64_t deadline, ttl;
  _Atomic uint64_t want; /* units << 32 | cap */
  const char *_Atomic ended;
  int64_t max_hold, max_end; /* max_end: constant once granted */
  int64_t granted_at;
  struct dlk_due due;       /* in the loop's batch: its renewal, or its end */
  struct dlk_list link;     /* in held.list while it is held */
  struct dlk_list waiters;  /* wait_lost tickets */
  struct dlk_list detaches; /* tickets, until `ops` is 0 */
  struct dlk_post drop;     /* it is COLLECTED or DROPPING */
  uint64_t id;              /* unique in the process */
  uint32_t user;
};

/* What a hold asks of dispatch.c, which knows requests. */
struct dlk_lease_calls {
  /* It is held no longer, but `state`: those that wait are told. */
  void (*left)(struct dlk_hold *h, enum dlk_hold_state state);
  /* It is held and to be released. True: it was handed on instead. */
  bool (*pass)(struct dlk_hold *h);
  /* Starts a release nobody waits for; false when out of memory. */
  bool (*release)(struct dlk_hold *h);
};

/* A hold that is handed over and is held for so long is renewed: for the rest
 * of its ttl (on a claim: for a whole one), and for what the store shows of its
 * holder. */
#define DLK_HANDED_RENEW (50 * DLK_MS)

static inline bool dlk_hold_is_held(const struct dlk_hold *h) {
  int state = atomic_load(&h->state);
  return state >= DLK_HOLD_HELD && state <= DLK_HOLD_DROPPING;
}

static inline bool dlk_hold_is_renewed(const struct dlk_hold *h) {
  return h->asked.renew && atomic_load(&h->state) != DLK_HOLD_COLLECTED;
}

struct dlk_hold *dlk_hold_new(struct dlk_engine *e,
                              const struct dlk_request *r);
/* A candidate that asks for what the old one asked for. */
struct dlk_hold *dlk_hold_again(const struct dlk_hold *old);
/* By the loop's owner, as all that follows. The store granted it: HELD from now
 * on. False when less than `least` ns of the ttl are left: too little to be of
 * use. */
bool dlk_hold_begin(struct dlk_hold *h, int64_t now, int64_t least);
/* A renewal or an EXTEND took effect. */
void dlk_hold_extended(struct dlk_hold *h, int64_t ttl);
/* Around an EXTEND: before the store has it, and when it is over (of a hold
 * that is held; done: it took effect). */
void dlk_hold_extending(struct dlk_hold *h, int64_t ttl);
void dlk_hold_extend_over(struct dlk_hold *h, int64_t ttl, bool done);
/* Ends one that is held; why: a constant. */
void dlk_hold_leave(struct dlk_hold *h, int64_t now, enum dlk_hold_state state,
                    const char *why);
/* Its release is over, with that code: a RELEASING one is RELEASED, or LOST. */
void dlk_hold_release_over(struct dlk_hold *h, enum dlk_code code);
/* Gives it back to the store in the background, whatever it was. */
void dlk_hold_give_back(struct dlk_hold *h);
/* Looks at the clock: true while our own deadline has not passed; ends it
 * otherwise. */
bool dlk_hold_check(struct dlk_hold *h, int64_t now);
/* Sees to its next renewal, or its end. */
void dlk_hold_schedule(struct dlk_hold *h);
/* The engine must look at it at that time. */
void dlk_hold_due(struct dlk_hold *h, int64_t at);
void dlk_hold_set_want(struct dlk_hold *h, struct dlk_want want);
/* An event for the program. */
void dlk_hold_tell(const struct dlk_hold *h, const char *kind,
                   const char *text);

#endif
