/* A hold and its votes: see hold.c. */
#ifndef DLK_STORE_REDLOCK_HOLD_H
#define DLK_STORE_REDLOCK_HOLD_H

#include "core/timer.h"
#include "store/redis/recipe/vote.h"
#include "store/redlock/node.h"

/* One token on one node. */
struct dlk_redlock_vote {
  struct dlk_lease lease; /* first: the node's view */
  struct dlk_redlock_hold *hold;
  struct dlk_redlock_node *node;
  struct dlk_redlock_ask *ask; /* for it; NULL: we have it */
  unsigned refs;               /* its place, a renewal, each ask */
  unsigned round;
  bool counts; /* it has its place in hold->votes */
  bool leaves; /* hold->away counts it */
  bool renewing, fresh;
  int64_t end;   /* sure until then */
  int64_t cut;   /* the last extension: an older renewal adds nothing */
  int64_t value; /* of the node's counter, or 0 */
  struct dlk_list entry;
  _Alignas(16) char data[];
};

/* From the first round to the last vote's end:
 *
 *   VOTING -> RAISING    q votes, whose counters differ       number
 *   VOTING, RAISING -> HELD      q votes carry the fence      granted
 *                   -> CLEARING  q cannot be had in time      fail
 *   CLEARING -> WAITING, OVER    all votes are given back     cleared
 *   WAITING -> VOTING    the time has come                    begin
 *   WAITING -> CLEARING  the caller gives up                  give_up
 *   HELD -> OVER         released, or lost                    leave */
enum dlk_redlock_phase {
  DLK_REDLOCK_VOTING,
  DLK_REDLOCK_RAISING,
  DLK_REDLOCK_CLEARING,
  DLK_REDLOCK_WAITING,
  DLK_REDLOCK_HELD,
  DLK_REDLOCK_OVER
};

struct dlk_redlock_hold {
  struct dlk_redlock *s;
  unsigned refs; /* its op or lease, each vote, each ask for news */
  enum dlk_redlock_phase phase;
  struct dlk_op *op;       /* the ACQUIRE under way, or NULL */
  struct dlk_lease *lease; /* HELD, or NULL */
  struct dlk_redlock_vote *votes[DLK_REDLOCK_NODES];
  struct dlk_redlock_ask *news[DLK_REDLOCK_NODES]; /* asks for a free key */
  bool free[DLK_REDLOCK_NODES];                    /* it is, said that node */
  unsigned round, away;  /* votes of this round that are not given back yet */
  unsigned yes, refused; /* of the last round */
  unsigned splits;
  unsigned guard; /* above 0: `look` comes later */
  bool woken, renewing;
  bool attaches; /* an ATTACH that is not granted yet */
  bool wrong;    /* the list of nodes is; `failures` says how */
  bool behind;   /* a holder's acquisition comes before ours */
  bool unheard;  /* fewer than q nodes answered the last whole round */
  int64_t beat, fence;
  int64_t began;   /* the round, or the hold */
  int64_t took;    /* the last round, until it was lost */
  const char *why; /* a vote was lost */
  struct dlk_redlock_failures failures, before; /* this round's; unheard's */
  struct dlk_timer timer;
  struct dlk_list entry;
  struct dlk_lease copy; /* with its own texts */
  char owner[DLK_HOLDER_MAX];
  char name[DLK_REDIS_NAME + 1]; /* the first digits of its tokens */
  char text[];                   /* key or detached lease, and value */
};

/* lease->data */
struct dlk_redlock_lease {
  struct dlk_redlock_hold *hold; /* NULL: none */
  char owner[DLK_HOLDER_MAX];    /* as an attach found it */
};

/* op->data: that of ACQUIRE and ATTACH is in the lease. */
struct dlk_redlock_op {
  struct dlk_redlock_poll *poll;
};

static inline struct dlk_redlock_hold *
dlk_redlock_hold_of(const struct dlk_lease *lease) {
  return ((struct dlk_redlock_lease *)lease->data)->hold;
}

/* ACQUIRE and ATTACH. */
void dlk_redlock_acquire(struct dlk_redlock *s, struct dlk_op *op);
void dlk_redlock_give_up(struct dlk_redlock *s, struct dlk_op *op);
void dlk_redlock_renew(void *store, struct dlk_lease *const *leases,
                       size_t count);
/* The lease has ended; NULL: by a release of its votes. */
void dlk_redlock_leave(struct dlk_redlock_hold *h, const char *why);
/* I7 of store.h, by the ends of the votes. */
int64_t dlk_redlock_sent(const struct dlk_redlock_hold *h, int64_t ttl);
/* Takes it from its hold; its node keeps it. */
void dlk_redlock_take(struct dlk_redlock_vote *v);
/* The same, as its node has lost it. */
void dlk_redlock_drop(struct dlk_redlock_vote *v, const char *why);
void dlk_redlock_vote_unref(struct dlk_redlock_vote *v);
void dlk_redlock_hold_unref(struct dlk_redlock_hold *h);
void dlk_redlock_holds_free(struct dlk_redlock *s);

/* What the facade tells of leases. */
extern const struct dlk_host dlk_redlock_votes;

#endif
