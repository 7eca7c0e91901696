/* A contender: one node in a lock's queue, from before it exists until it is
 * gone. Owned by the store; the engine's lease and op only point here.
 *
 * contender.c has what every step of its life needs. The steps, each file
 * calling only those before it: leave.c takes the node out, hold.c keeps it
 * while it holds, lists.c reads the queue, place.c finds its place there,
 * acquire.c makes it. */
#ifndef DLK_STORE_SESSION_RECIPE_CONTENDER_H
#define DLK_STORE_SESSION_RECIPE_CONTENDER_H

#include "store/session/recipe/meaning.h"
#include "store/session/recipe/store.h"

enum dlk_ss_step {
  DLK_SS_PARKED,    /* for a connected session */
  DLK_SS_PEEKING,   /* a try: looks whether it may hold at all */
  DLK_SS_CREATING,  /* create under way */
  DLK_SS_UNSETTLED, /* its answer was lost */
  DLK_SS_SETTLING,  /* finding out */
  DLK_SS_LISTING,   /* node is there; a list is under way or due */
  DLK_SS_WAITING,   /* for a watch */
  DLK_SS_READY,     /* first in the queue; for the horizon */
  DLK_SS_KEEPING,   /* the same; its stand-in is being made */
  DLK_SS_HELD,
  DLK_SS_LEAVING, /* being deleted */
  DLK_SS_GONE     /* only answers under way keep it in memory */
};

struct dlk_ss_listing;
/* A list was read. False: n may not hold by it, nor may anybody behind n. */
typedef bool dlk_ss_told(struct dlk_ss_contender *n,
                         const struct dlk_ss_listing *l);

struct dlk_ss_contender {
  struct dlk_ss_member member;
  struct dlk_list line; /* of those who asked for one list (lists.c), or of its
                           session's fresh or reads (hold.c) */
  dlk_ss_told *told;
  void *list;
  struct dlk_map_node by_guid;
  struct dlk_ss_store *store;
  struct dlk_lease *lease; /* while asked for or held */
  struct dlk_op *op;       /* ACQUIRE or RELEASE under way */
  struct dlk_timer timer;
  enum dlk_ss_step step;
  enum dlk_code outcome; /* for the op, once it is gone */
  bool wait;             /* queue up */
  bool leaving;          /* to be taken out as soon as it is known */
  bool cut;              /* an answer to a delete was lost */
  bool busy;             /* counted by host->busy */
  bool watched;          /* its own watch is armed */
  bool renewing;         /* an answer to renew is owed */
  bool peeked;           /* a try: it may hold, as far as was seen */
  bool downgraded;
  bool revoked;
  bool first_list;      /* a list was asked for together with create */
  bool due;             /* it stands in the `due` of `list` (lists.c) */
  bool kept;            /* its stand-in is there */
  bool rests;           /* which stays when it is gone */
  bool second;          /* WAITING: exactly one node was ahead of it */
  unsigned tries;       /* creates that found no folder */
  uint32_t listed;      /* session->lists when it stood in one */
  uint32_t tag;         /* of the answer it goes on with */
  uint32_t confirm;     /* token of its last write, */
  uint32_t confirm_tag; /* whose answer has this tag */
  int32_t seq;
  int64_t sent; /* its create or its last list was; held: its ttl counts so */
  int64_t czxid;
  char *standin;      /* its path, or NULL: standin.c */
  int64_t until_ms;   /* its end, by the server's clock */
  int64_t rest_until; /* when min_hold is over, by ours */
  int64_t behind_ms;  /* WAITING: a stand-in's end, by the server's; 0: none */
  struct dlk_want want;
  struct dlk_list extends; /* EXTENDs that wait for what its node says */
  char *guid; /* in path, where its name has it, also before that is known */
  char *head; /* name of the first in the queue, for messages */
  size_t lock_len; /* of the lock's path in path */
  char path[];     /* lock's path; its own once the name is known */
};

static inline struct dlk_ss_contender *
dlk_ss_contender(struct dlk_ss_member *m) {
  return DLK_CONTAINER(m, struct dlk_ss_contender, member);
}

/* The one that holds the lease; NULL: none does (any more). */
static inline struct dlk_ss_contender *
dlk_ss_holder(const struct dlk_lease *lease) {
  return ((const struct dlk_ss_lease_data *)lease->data)->node;
}

/* Its own node is not there any more; goes on as if it were connected. As the
 * session tells it: acquire.c has both. */
static inline void dlk_ss_contender_vanished(struct dlk_ss_contender *n) {
  n->member.type->gone(&n->member);
}
static inline void dlk_ss_contender_resume(struct dlk_ss_contender *n) {
  n->member.type->resume(&n->member);
}

/* A new one for an ACQUIRE, in no session yet. NULL: out of memory. */
struct dlk_ss_contender *
dlk_ss_contender_new(struct dlk_ss_store *st, struct dlk_op *op,
                     const struct dlk_ss_member_type *type);
void dlk_ss_contender_step(struct dlk_ss_contender *n, enum dlk_ss_step step);
/* The op that is under way for it; NULL: none any more. */
void dlk_ss_contender_serve(struct dlk_ss_contender *n, struct dlk_op *op);
/* The lease is a hold of n; or n has none any more. */
void dlk_ss_contender_hold(struct dlk_ss_contender *n);
void dlk_ss_contender_unhold(struct dlk_ss_contender *n);

bool dlk_ss_contender_send(struct dlk_ss_contender *n, struct dlk_ss_request *r,
                           dlk_ss_answer *answer);
/* Deletes a node of the lock if there is a connection. The answer makes no
 * difference: what is still there is seen in the next list. path: may be NULL.
 */
void dlk_ss_delete_path(struct dlk_ss_session *s, const char *path);
/* An answer for n came: false when nothing but its memory is left. */
bool dlk_ss_contender_answered(struct dlk_ss_contender *n);
/* Tries again soon, or when the session is connected. */
void dlk_ss_contender_stall(struct dlk_ss_contender *n);
/* n's write was just sent, at `now`, and may be a confirm; it was answered. */
void dlk_ss_contender_confirms(struct dlk_ss_contender *n, int64_t now);
void dlk_ss_contender_confirmed(struct dlk_ss_contender *n, uint32_t tag,
                                bool ok);
/* It stands in no line any more. */
void dlk_ss_contender_step_out(struct dlk_ss_contender *n);
/* It wants to hear of no node any more. */
void dlk_ss_contender_unwatch(struct dlk_ss_contender *n);
/* Its name is known from now on; it has none any more. */
void dlk_ss_contender_name(struct dlk_ss_contender *n, const char *name);
void dlk_ss_contender_forget_name(struct dlk_ss_contender *n);
/* The path of another node of the same lock, in the store's scratch. NULL when
 * out of memory. */
const char *dlk_ss_contender_sibling(struct dlk_ss_contender *n,
                                     const char *name);

#endif
