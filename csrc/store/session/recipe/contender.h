/* A contender: one node in a lock's queue, from before it exists until it is
 * gone. The store owns it; the engine's lease and op point to it. Files call
 * only those before them: contender.c, leave.c (takes the node out), hold.c,
 * lists.c (reads the queue), place.c (its place there), acquire.c (makes it).
 */
#ifndef DLK_STORE_SESSION_RECIPE_CONTENDER_H
#define DLK_STORE_SESSION_RECIPE_CONTENDER_H

#include "store/session/recipe/meaning.h"
#include "store/session/recipe/store.h"

enum dlk_ss_step {
  DLK_SS_PARKED,  /* waits for a connected session */
  DLK_SS_PEEKING, /* a try: looks whether it may hold */
  DLK_SS_CREATING,
  DLK_SS_UNSETTLED, /* its answer was lost */
  DLK_SS_SETTLING,  /* finding out */
  DLK_SS_LISTING,   /* the node exists; a list is under way or due */
  DLK_SS_WAITING,   /* for a watch's event */
  DLK_SS_READY,     /* first in the queue; waits for the horizon */
  DLK_SS_KEEPING,   /* first; its stand-in is being made */
  DLK_SS_HELD,
  DLK_SS_LEAVING, /* being deleted */
  DLK_SS_GONE     /* only answers under way keep its memory */
};

struct dlk_ss_listing;
/* A list was read. False: neither n nor anybody behind may hold by it. */
typedef bool dlk_ss_told(struct dlk_ss_contender *n,
                         const struct dlk_ss_listing *l);

struct dlk_ss_contender {
  struct dlk_ss_member member;
  struct dlk_list line; /* of a list's askers (lists.c), or its session's fresh
                           or reads (hold.c) */
  dlk_ss_told *told;
  void *list;
  struct dlk_map_node by_guid;
  struct dlk_ss_store *store;
  struct dlk_lease *lease; /* while asked for or held */
  struct dlk_op *op;
  struct dlk_timer timer;
  enum dlk_ss_step step;
  enum dlk_code outcome; /* for the op, once the node is gone */
  bool wait;
  bool leaving; /* taken out once its state is known */
  bool cut;     /* a delete went unanswered */
  bool busy;
  bool watched;  /* its own node is */
  bool renewing; /* host awaits an answer */
  bool peeked;   /* a try that may hold, as far as seen */
  bool downgraded;
  bool revoked;
  bool first_list;      /* asked for together with create */
  bool due;             /* in `due` of `list` (lists.c) */
  bool kept;            /* its stand-in exists, */
  bool rests;           /* and outlives it */
  bool second;          /* WAITING: exactly one node was ahead */
  unsigned tries;       /* creates that found no folder */
  uint32_t listed;      /* session->lists when last seen in one */
  uint32_t tag;         /* of the answer that it waits for */
  uint32_t confirm;     /* its last write's, and */
  uint32_t confirm_tag; /* the tag of that write */
  int32_t seq;
  int64_t sent; /* its create or last list; held: start of its ttl */
  int64_t czxid;
  char *standin;      /* its path, or NULL */
  int64_t until_ms;   /* its end, servers' clock */
  int64_t rest_until; /* end of min_hold, our clock */
  int64_t
      behind_ms; /* WAITING: end of a stand-in ahead, servers' clock; 0: none */
  struct dlk_want want;
  struct dlk_list extends; /* EXTENDs to be answered */
  char *guid;              /* its place in path */
  char *head;              /* name of the first in the queue */
  size_t lock_len;
  char path[]; /* the lock's; its own once the name is known */
};

static inline struct dlk_ss_contender *
dlk_ss_contender(struct dlk_ss_member *m) {
  return DLK_CONTAINER(m, struct dlk_ss_contender, member);
}

/* The contender that holds the lease, or NULL. */
static inline struct dlk_ss_contender *
dlk_ss_holder(const struct dlk_lease *lease) {
  return ((const struct dlk_ss_lease_data *)lease->data)->node;
}

/* Its node is gone; or it may go on, connected: as the session tells it
 * (acquire.c). */
static inline void dlk_ss_contender_vanished(struct dlk_ss_contender *n) {
  n->member.type->gone(&n->member);
}
static inline void dlk_ss_contender_resume(struct dlk_ss_contender *n) {
  n->member.type->resume(&n->member);
}

/* For an ACQUIRE, in no session yet. NULL: no memory. */
struct dlk_ss_contender *
dlk_ss_contender_new(struct dlk_ss_store *st, struct dlk_op *op,
                     const struct dlk_ss_member_type *type);
void dlk_ss_contender_step(struct dlk_ss_contender *n, enum dlk_ss_step step);
/* op is under way for n; NULL: none. */
void dlk_ss_contender_serve(struct dlk_ss_contender *n, struct dlk_op *op);
/* n holds its lease; n holds none any more. */
void dlk_ss_contender_hold(struct dlk_ss_contender *n);
void dlk_ss_contender_unhold(struct dlk_ss_contender *n);

bool dlk_ss_contender_send(struct dlk_ss_contender *n, struct dlk_ss_request *r,
                           dlk_ss_answer *answer);
/* Deletes a node if connected. The next list shows a failure. path: may be
 * NULL. */
void dlk_ss_delete_path(struct dlk_ss_session *s, const char *path);
/* Call first for each answer. False: only n's memory was left. */
bool dlk_ss_contender_answered(struct dlk_ss_contender *n);
/* Tries again soon, or when connected. */
void dlk_ss_contender_stall(struct dlk_ss_contender *n);
/* n's write was just sent and may confirm; it was answered. */
void dlk_ss_contender_confirms(struct dlk_ss_contender *n, int64_t now);
void dlk_ss_contender_confirmed(struct dlk_ss_contender *n, uint32_t tag,
                                bool ok);
/* n waits for no list any more. */
void dlk_ss_contender_step_out(struct dlk_ss_contender *n);
void dlk_ss_contender_unwatch(struct dlk_ss_contender *n);
void dlk_ss_contender_name(struct dlk_ss_contender *n, const char *name);
void dlk_ss_contender_forget_name(struct dlk_ss_contender *n);
/* Another node of the same lock, in the store's scratch. NULL: no memory. */
const char *dlk_ss_contender_sibling(struct dlk_ss_contender *n,
                                     const char *name);

#endif
