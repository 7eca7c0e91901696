/* See lease.c. */
#ifndef DLK_ENGINE_HOLD_LEASE_H
#define DLK_ENGINE_HOLD_LEASE_H

#include "engine/state.h"

/* How far a hold is. The loop's owner changes it, in lease.c; any thread may
 * set COLLECTED and DROPPING:
 *
 *   CANDIDATE -> HELD            the store granted it     dlk_hold_begin
 *   HELD -> COLLECTED            its last handle went     dlk_hold_collected
 *   HELD, COLLECTED -> DROPPING  it is to be given back   .._release_later
 *   these three -> RELEASING     its release is sent      dlk_hold_leave
 *               -> RELEASED      it was handed over       dlk_hold_leave
 *               -> DETACHED      the string has it        dlk_hold_leave
 *               -> LOST          deadline, break, ...     dlk_hold_leave
 *   RELEASING -> RELEASED, LOST  the release is answered  .._release_over
 *
 * HELD, COLLECTED and DROPPING are held: the store keeps the lock for us. No
 * other flag decides what may come next. */
enum dlk_hold_state {
  DLK_HOLD_CANDIDATE,
  DLK_HOLD_HELD,
  DLK_HOLD_COLLECTED, /* no renewal: ends at its deadline */
  DLK_HOLD_DROPPING,
  DLK_HOLD_RELEASING,
  DLK_HOLD_RELEASED,
  DLK_HOLD_LOST,
  DLK_HOLD_DETACHED
};

struct dlk_local_queue;

struct dlk_hold {
  struct dlk_lease lease; /* first: the store's view */
  struct dlk_engine *engine;
  atomic_int refs, state;
  atomic_int handles;   /* not given up; the last stays counted */
  atomic_bool given_up; /* the first handle */
  atomic_bool revoked;
  atomic_bool expired; /* latches a passed deadline */
  atomic_bool given;   /* a caller may count on it */
  struct {             /* constant */
    bool renew, provisional;
    bool hands_on; /* local hand-off is allowed */
    bool unfair;   /* also before earlier waiters of others */
    bool owner;    /* not the engine's name */
  } asked;
  bool owed;      /* its release had no memory: again later */
  bool renewing;  /* the store has a renewal */
  bool handed;    /* handed over, and not renewed since */
  uint16_t jumps; /* turns it took before others */
  uint32_t size;  /* with the store's bytes and texts */
  int ops;        /* requests that the store has */
  int extending;  /* EXTENDs that the store has; no renewal then */
  int64_t cut_to; /* not held longer: an EXTEND may have cut it */
  struct dlk_local_queue *queue; /* whose holder it is */
  /* For other threads: copies of lease.ttl and lease.want. */
  _Atomic int64_t deadline, ttl;
  _Atomic uint64_t want; /* units << 32 | cap */
  const char *_Atomic ended;
  int64_t max_hold, max_end; /* max_end: constant once granted */
  int64_t granted_at;
  struct dlk_due due;       /* its renewal, or its end */
  struct dlk_list link;     /* in held.list */
  struct dlk_list waiters;  /* wait_lost tickets */
  struct dlk_list detaches; /* tickets that wait for `ops` 0 */
  struct dlk_post drop;     /* of COLLECTED or DROPPING */
  uint64_t id;
  uint32_t user;
};

/* What a hold asks of dispatch.c. */
struct dlk_lease_calls {
  /* It left the held states: tells those that wait. */
  void (*left)(struct dlk_hold *h, enum dlk_hold_state state);
  /* Passes it on instead of a release, or returns false. */
  bool (*pass)(struct dlk_hold *h);
  /* Releases in the background. Returns false without memory. */
  bool (*release)(struct dlk_hold *h);
};

/* A hold that was handed over and lasts so long is renewed: for all of its ttl,
 * and for the holder that the store shows. */
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
/* A candidate that asks for the same. */
struct dlk_hold *dlk_hold_again(const struct dlk_hold *old);
/* For the loop's owner, as all that follows. The store granted it. Returns
 * false if less than `least` ns of the ttl are left. */
bool dlk_hold_begin(struct dlk_hold *h, int64_t now, int64_t least);
void dlk_hold_extended(struct dlk_hold *h, int64_t ttl);
/* An EXTEND (or detach) begins, and is over; done: it took effect. */
void dlk_hold_extending(struct dlk_hold *h, int64_t ttl);
void dlk_hold_extend_over(struct dlk_hold *h, int64_t ttl, bool done);
/* Ends a held one. why: a constant. */
void dlk_hold_leave(struct dlk_hold *h, int64_t now, enum dlk_hold_state state,
                    const char *why);
void dlk_hold_release_over(struct dlk_hold *h, enum dlk_code code);
/* Releases it in the background, in any state. */
void dlk_hold_give_back(struct dlk_hold *h);
/* Returns true before our deadline, and ends it otherwise. */
bool dlk_hold_check(struct dlk_hold *h, int64_t now);
/* Sets the time of its renewal, or its end. */
void dlk_hold_schedule(struct dlk_hold *h);
void dlk_hold_due(struct dlk_hold *h, int64_t at);
void dlk_hold_set_want(struct dlk_hold *h, struct dlk_want want);
/* Adds an event for the program. */
void dlk_hold_tell(const struct dlk_hold *h, const char *kind,
                   const char *text);

#endif
