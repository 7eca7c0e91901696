/* A contender: one node in a lock's queue, from before it exists until it is
 * gone. The store owns it. Its files call only those before: contender.c,
 * standin.c, leave.c, hold.c, lists.c, place.c, acquire.c. */
#ifndef DLK_STORE_SESSION_RECIPE_CONTENDER_H
#define DLK_STORE_SESSION_RECIPE_CONTENDER_H

#include "store/session/recipe/meaning.h"
#include "store/session/recipe/queue.h"
#include "store/session/recipe/store.h"

/* acquire.c draws the transitions. */
enum dlk_ss_step {
  DLK_SS_PARKED,
  DLK_SS_PEEKING, /* a try: looks first */
  DLK_SS_CREATING,
  DLK_SS_UNSETTLED, /* create's answer was lost */
  DLK_SS_SETTLING,  /* finding out */
  DLK_SS_LISTING,   /* a list is under way or due */
  DLK_SS_WAITING,   /* for a watch's event */
  DLK_SS_READY,     /* first; waits for the horizon */
  DLK_SS_KEEPING,   /* first; its stand-in is being made */
  DLK_SS_HELD,
  DLK_SS_LEAVING, /* being deleted */
  DLK_SS_GONE     /* its memory waits for answers */
};

struct dlk_ss_listing;
/* A list was read. False: neither n nor anybody behind may hold by it. */
typedef bool dlk_ss_told(struct dlk_ss_contender *n,
                         const struct dlk_ss_listing *l);

struct dlk_ss_contender {
  struct dlk_ss_member member;
  struct dlk_list line; /* a list's askers (lists.c), or holds (hold.c) */
  dlk_ss_told *told;
  void *list;
  struct dlk_map_node by_guid;
  struct dlk_ss_store *store;
  struct dlk_lease *lease;
  struct dlk_op *op;
  struct dlk_timer timer;
  enum dlk_ss_step step;
  enum dlk_code outcome; /* for the op, once the node is gone */
  bool wait;
  bool leaving; /* taken out once its state is known */
  bool cut;     /* a delete went unanswered */
  bool busy;
  bool watched;  /* its own node is */
  bool renewing; /* the host awaits an answer */
  bool peeked;   /* a try that may hold */
  bool downgraded;
  bool revoked;
  bool detaching;       /* it may be bound to itself */
  bool first_list;      /* asked for together with create */
  bool due;             /* in `due` of `list` (lists.c) */
  bool kept;            /* its stand-in exists, */
  bool rests;           /* and outlives it */
  bool second;          /* WAITING: one node was ahead */
  unsigned tries;       /* creates that found no folder */
  uint32_t listed;      /* session->lists when last seen in one */
  uint32_t tag;         /* of the answer that it waits for */
  uint32_t confirm;     /* its last write's, and */
  uint32_t confirm_tag; /* the tag of that write */
  int64_t sent;         /* create or last list; held: start of its ttl */
  int64_t fence;
  char *standin;      /* its path, or NULL */
  int64_t until_ms;   /* its end, servers' clock */
  int64_t kept_from;  /* when its end was reckoned */
  int64_t rest_until; /* end of min_hold, our clock */
  int64_t behind_ms;  /* end of a stand-in ahead, servers' clock; 0: none */
  struct dlk_want want;
  struct dlk_list extends;
  char *guid;
  char *head; /* name of the queue's first */
  size_t lock_len;
  char path[]; /* the lock's; its own once the name is known */
};

static inline struct dlk_ss_contender *
dlk_ss_contender(struct dlk_ss_member *m) {
  return DLK_CONTAINER(m, struct dlk_ss_contender, member);
}

/* The lease's holder, or NULL. */
static inline struct dlk_ss_contender *
dlk_ss_holder(const struct dlk_lease *lease) {
  return ((const struct dlk_ss_lease_data *)lease->data)->node;
}

/* Its node is gone, or not its session's; or it may go on: as the session tells
 * it. */
static inline void dlk_ss_contender_vanished(struct dlk_ss_contender *n) {
  n->member.type->gone(&n->member);
}
static inline void dlk_ss_contender_unbound(struct dlk_ss_contender *n) {
  n->member.type->unbound(&n->member);
}
static inline void dlk_ss_contender_resume(struct dlk_ss_contender *n) {
  n->member.type->resume(&n->member);
}

/* ---- contender.c ---- */

/* For an ACQUIRE, in no session yet. NULL: no memory. */
struct dlk_ss_contender *
dlk_ss_contender_new(struct dlk_ss_store *st, struct dlk_op *op,
                     const struct dlk_ss_member_type *type);
void dlk_ss_contender_step(struct dlk_ss_contender *n, enum dlk_ss_step step);
/* NULL: none. */
void dlk_ss_contender_serve(struct dlk_ss_contender *n, struct dlk_op *op);
void dlk_ss_contender_hold(struct dlk_ss_contender *n);
void dlk_ss_contender_unhold(struct dlk_ss_contender *n);
bool dlk_ss_contender_send(struct dlk_ss_contender *n, struct dlk_ss_request *r,
                           dlk_ss_answer *answer);
/* If connected; the next list shows a failure. path: may be NULL. */
void dlk_ss_delete_path(struct dlk_ss_session *s, const char *path);
/* Call first for each answer. False: only n's memory was left. */
bool dlk_ss_contender_answered(struct dlk_ss_contender *n);
/* Tries again soon, or when connected. */
void dlk_ss_contender_stall(struct dlk_ss_contender *n);
/* n's write was sent; it was answered. */
void dlk_ss_contender_confirms(struct dlk_ss_contender *n,
                               enum dlk_ss_verb verb, int64_t now);
void dlk_ss_contender_confirmed(struct dlk_ss_contender *n, uint32_t tag,
                                bool ok);
/* Of its list's line. */
void dlk_ss_contender_step_out(struct dlk_ss_contender *n);
void dlk_ss_contender_unwatch(struct dlk_ss_contender *n);
void dlk_ss_contender_name(struct dlk_ss_contender *n, const char *name);
void dlk_ss_contender_forget_name(struct dlk_ss_contender *n);
/* In the store's scratch. NULL: no memory. */
const char *dlk_ss_contender_sibling(struct dlk_ss_contender *n,
                                     const char *name);

/* ---- standin.c: min_hold, and the servers' clock ---- */

/* r's write was executed at ms. */
void dlk_ss_clock_heard(struct dlk_ss_store *st, const struct dlk_ss_reply *r,
                        int64_t ms);
/* Asks by a write to the lock's folder; the answer comes before those sent
 * behind it. */
void dlk_ss_clock_ask(struct dlk_ss_session *s, const char *path, size_t len);
/* ns until a time of the servers' clock; too long only by the clocks'
 * difference in rate. */
int64_t dlk_ss_clock_left(struct dlk_ss_store *st, int64_t ms);

/* Heard lately enough. */
bool dlk_ss_clock_known(struct dlk_ss_store *st);

/* Makes the stand-in of n, which is first, unless n's node is gone. False:
 * nothing was sent. */
bool dlk_ss_standin_make(struct dlk_ss_contender *n, dlk_ss_answer *answer);
/* It exists; the lease's min_hold is what is left. False: no memory. */
bool dlk_ss_standin_take(struct dlk_ss_contender *n);
/* Deletes it. */
void dlk_ss_standin_drop(struct dlk_ss_contender *n);
/* n is gone: its stand-in stays until its end if it `rests`. */
void dlk_ss_standin_leave(struct dlk_ss_contender *n);

/* Takes those past their end out of the queue. path: deletes their nodes, too.
 */
void dlk_ss_standins_end(struct dlk_ss_session *s, const char *path,
                         struct dlk_ss_queue *q);
/* The store stops: others end what rests. */
void dlk_ss_rests_end(struct dlk_ss_store *st);

/* ---- leave.c ---- */

/* Then n's op ends with `outcome`. */
void dlk_ss_leave(struct dlk_ss_contender *n, enum dlk_code outcome);
void dlk_ss_delete(struct dlk_ss_contender *n);
/* The node is gone: frees n. */
void dlk_ss_finish(struct dlk_ss_contender *n, enum dlk_code release_code);
/* The node never was: frees n. */
void dlk_ss_fail(struct dlk_ss_contender *n, enum dlk_code code);
/* We may not delete or look: retires the session, whose end takes the node. A
 * release is told this code. */
void dlk_ss_abandon(struct dlk_ss_contender *n, enum dlk_code code);
/* Unanswered; n goes on in the background. */
void dlk_ss_contender_end_op(struct dlk_ss_contender *n);
void dlk_ss_contender_cancel(struct dlk_ss_store *st, struct dlk_op *op,
                             struct dlk_ss_contender *n);
/* Names the owner of the node in the way. */
void dlk_ss_keep_holder(struct dlk_op *op, const struct dlk_ss_reply *r);

/* ---- hold.c ---- */

/* A session's holds, and its lists under way. */
struct dlk_ss_holds {
  struct dlk_ss_session *session;
  struct dlk_list fresh; /* whose own node is not watched yet */
  struct dlk_list reads; /* whose own node is to be read */
  size_t reading;        /* of those, sent */
  struct dlk_timer fresh_timer;
  struct dlk_map lists;
};

void dlk_ss_holds_opened(struct dlk_ss_session *s);
void dlk_ss_holds_connected(struct dlk_ss_session *s);
/* By a list sent for at `sent`, or an event then; its ttl counts from there. */
void dlk_ss_grant(struct dlk_ss_contender *n, int64_t sent);
void dlk_ss_lose(struct dlk_ss_contender *n, const char *why, bool is_gone);
void dlk_ss_hold_expired(struct dlk_ss_contender *n);
void dlk_ss_release(struct dlk_ss_store *st, struct dlk_op *op);
void dlk_ss_extend(struct dlk_ss_store *st, struct dlk_op *op);
void dlk_ss_renew(void *store, struct dlk_lease *const *leases, size_t count);
void dlk_ss_hold_resume(struct dlk_ss_contender *n);
/* Its own watch: armed, or over (OK: changed; NONODE; unread). */
void dlk_ss_own_armed(struct dlk_ss_contender *n,
                      const struct dlk_ss_sight *sight);
void dlk_ss_own_over(struct dlk_ss_contender *n, enum dlk_ss_rc rc);

/* ---- lists.c ---- */

/* Valid during the call. */
struct dlk_ss_listing {
  enum dlk_ss_rc rc;
  bool due; /* I2 (lists.c) */
  struct dlk_ss_queue *queue;
  size_t place; /* of the contender told; queue->count: not there */
  int64_t sent;
};

/* Sends for a list, `fresh` or not; n->told hears it once, unless n forgets the
 * question. False: no memory. */
bool dlk_ss_lists_ask(struct dlk_ss_contender *n, bool fresh,
                      dlk_ss_told *told);

/* What a session tells the recipe. */
extern const struct dlk_ss_session_hooks dlk_ss_recipe;

/* ---- place.c ---- */

/* A try looks before it writes. */
void dlk_ss_place_peek(struct dlk_ss_contender *n);
bool dlk_ss_place_list(struct dlk_ss_contender *n);
void dlk_ss_place_relist(struct dlk_ss_contender *n);
void dlk_ss_place_armed(struct dlk_ss_contender *n,
                        const struct dlk_ss_sight *sight);
void dlk_ss_place_changed(struct dlk_ss_contender *n, enum dlk_ss_rc rc);

/* ---- acquire.c ---- */

void dlk_ss_acquire(struct dlk_ss_store *st, struct dlk_op *op);
/* Grants op's lease, filled in, a node that is bound to s: an attach. False: no
 * memory. */
bool dlk_ss_adopt(struct dlk_ss_session *s, struct dlk_op *op,
                  const struct dlk_ss_entry *node, int64_t fence, int64_t sent);

#endif
