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
 *               -> RELEASED      it was handed over
 *               -> DETACHED      the string has it
 *               -> LOST          deadline, break, ...
 *   RELEASING -> RELEASED, LOST  the release is answered  .._release_over
 *
 * HELD, COLLECTED and DROPPING are held. */
enum dlk_hold_state {
  DLK_HOLD_CANDIDATE,
  DLK_HOLD_HELD,
  DLK_HOLD_COLLECTED, /* no renewal */
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
  atomic_int handles;   /* not given up */
  atomic_bool given_up; /* the first handle */
  atomic_bool revoked;
  atomic_bool expired; /* a deadline has passed */
  atomic_bool given;
  struct { /* constant */
    bool renew, provisional;
    bool hands_on; /* may be handed over */
    bool unfair;   /* even out of order */
    bool owner;    /* not the engine's name */
  } asked;
  bool owed; /* a release lacked memory */
  bool renewing;
  bool handed;    /* no renewal since */
  uint16_t jumps; /* turns before others */
  uint32_t size;
  int ops;                       /* requests that the store has */
  int extending;                 /* EXTENDs there; no renewal then */
  int64_t cut_to;                /* an EXTEND may be shorter */
  struct dlk_local_queue *queue; /* it is the holder */
  /* Copies for other threads. */
  _Atomic int64_t deadline, ttl;
  _Atomic uint64_t want; /* units << 32 | cap */
  const char *_Atomic ended;
  int64_t max_hold, max_end;
  int64_t granted_at;
  struct dlk_due due; /* renewal, or end */
  struct dlk_list link;
  struct dlk_list waiters;
  struct dlk_list detaches; /* tickets that wait for `ops` 0 */
  struct dlk_post drop;     /* of COLLECTED or DROPPING */
  uint64_t id;
  uint32_t user;
};

/* Calls of request.c, for leases and local queues. */
struct dlk_request_calls {
  /* No longer held: tells waiters. */
  void (*left)(struct dlk_hold *h, enum dlk_hold_state state);
  /* Hands it over instead of a release. */
  bool (*pass)(struct dlk_hold *h);
  /* In the background. False: no memory. */
  bool (*release)(struct dlk_hold *h);
  /* NULL: no memory. */
  struct dlk_ticket *(*make)(struct dlk_engine *e, const struct dlk_request *r);
  void (*submit)(struct dlk_ticket *t);
  void (*finish)(struct dlk_ticket *t, const struct dlk_error *err);
};

/* After so long a hold that was handed over is renewed: for all of its ttl, and
 * for the holder that the store shows. */
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
/* For the loop's owner, as all that follows. False: less than `least` ns are
 * left. */
bool dlk_hold_begin(struct dlk_hold *h, int64_t now, int64_t least);
void dlk_hold_extended(struct dlk_hold *h, int64_t ttl);
/* Around an EXTEND or detach; done: it took effect. */
void dlk_hold_extending(struct dlk_hold *h, int64_t ttl);
void dlk_hold_extend_over(struct dlk_hold *h, int64_t ttl, bool done);
/* why: a constant. */
void dlk_hold_leave(struct dlk_hold *h, int64_t now, enum dlk_hold_state state,
                    const char *why);
void dlk_hold_release_over(struct dlk_hold *h, enum dlk_code code);
/* Releases it in the background, in any state. */
void dlk_hold_give_back(struct dlk_hold *h);
/* False: the deadline has passed, which ends it. */
bool dlk_hold_check(struct dlk_hold *h, int64_t now);
void dlk_hold_schedule(struct dlk_hold *h);
void dlk_hold_due(struct dlk_hold *h, int64_t at);
void dlk_hold_set_want(struct dlk_hold *h, struct dlk_want want);
void dlk_hold_tell(const struct dlk_hold *h, const char *kind,
                   const char *text);

#endif
