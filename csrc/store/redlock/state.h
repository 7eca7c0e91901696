/* What a hold and its votes are, and their memory: hold.c changes them. */
#ifndef DLK_STORE_REDLOCK_STATE_H
#define DLK_STORE_REDLOCK_STATE_H

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

/* A copy of the lease's texts, and a name; its caller has the one reference.
 * NULL: out of memory. */
struct dlk_redlock_hold *dlk_redlock_hold_new(struct dlk_redlock *s,
                                              const struct dlk_lease *l);
void dlk_redlock_vote_unref(struct dlk_redlock_vote *v);
void dlk_redlock_hold_unref(struct dlk_redlock_hold *h);
void dlk_redlock_holds_free(struct dlk_redlock *s);

#endif
