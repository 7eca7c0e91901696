/* What the recipe's files share. Everything runs in the driver role. In the
 * order in which they are best read:
 *
 *   names.c    names of nodes; data.c  what a contender's node says
 *   queue.c    the admission rule; confirm.c  how long a hold counts
 *   link.h     a session as the recipe sees it; session.c and deliver.c put it
 *              on the client library
 *   store.c    words for errors, and paths
 *   node.c     a contender: the recipe, its create, the sessions it lives
 *              through; with it, each calling the next as a contender goes:
 *     line.c   its place in the queue, and what follows from it
 *     hold.c   a contender that holds: renewal, loss, release
 *     leave.c  a contender on its way out
 *     watch.c  who watches which node
 *     house.c  sessions: opening, replacing, ending
 *     chain.c  a session's confirms, and the horizon
 *   ask.c      operations that only look, or act once; admin.c, list.c and
 *              guard.c have their kinds
 *   zookeeper.c  the table of the store: what the engine calls */
#ifndef DLK_STORE_ZOOKEEPER_INTERNAL_H
#define DLK_STORE_ZOOKEEPER_INTERNAL_H

#include "core/buf.h"
#include "core/map.h"
#include "store/zookeeper/client/link.h"
#include "store/zookeeper/recipe/queue.h"
#include "store/zookeeper/session/confirm.h"

/* Fences must print exactly on every Lua. A czxid is epoch << 32 | counter,
 * so this is reached after 23,283 elections. */
#define DLK_ZK_FENCE_MAX INT64_C(100000000000000)

struct dlk_zk_store {
  struct dlk_host *host;
  const struct dlk_zk_driver *driver;
  struct dlk_conf conf;
  char *hosts, *auth;
  char *base;                     /* chroot and prefix, "/app/dlock" */
  size_t chroot;                  /* length of the chroot in it */
  char client[DLK_ZK_CLIENT + 1]; /* "" until first use */
  struct dlk_map by_guid;
  struct dlk_list sessions, closing; /* closing: struct dlk_zk_closing */
  struct dlk_zk_session *current;
  struct dlk_buf scratch;
  struct dlk_timer stop_timer;
  size_t links; /* open or closing */
  bool stopping;
  int slow_opens;
  int64_t backoff;
  char problem[160]; /* why there is no session; "" */
};

enum dlk_zk_state {
  DLK_ZK_OPENING,
  DLK_ZK_CONNECTED,
  DLK_ZK_AWAY,  /* the library is looking for a server */
  DLK_ZK_BROKEN /* could not be opened; to be replaced */
};

struct dlk_zk_session {
  struct dlk_list link; /* in store->sessions */
  struct dlk_zk_store *store;
  struct dlk_zk_link *connection; /* NULL when BROKEN */
  struct dlk_zk_closing *closing; /* for its end */
  enum dlk_zk_state state;
  bool retired; /* takes nothing new; closed when empty */
  int64_t id, opened, timeout;
  struct dlk_zk_confirm confirm;
  int64_t confirm_not_before;
  struct dlk_zk_node *confirm_node; /* whose node the last confirm names, */
  uint32_t confirm_named;           /* with this token */
  struct dlk_list nodes, asks;
  struct dlk_list zombies; /* nodes that only wait for answers */
  size_t node_count, parked, live, held, ready; /* live: asks for or has */
  size_t resting;
  struct dlk_list fresh; /* holds whose own node is not watched yet */
  struct dlk_list looks; /* holds whose own node is to be read */
  size_t looking;        /* such reads under way */
  struct dlk_map watches;
  size_t watch_bytes, own_watches;
  struct dlk_timer timer;         /* opening or away for too long */
  struct dlk_timer tidy_timer;    /* close if retired and empty */
  struct dlk_timer confirm_timer; /* the next confirm */
  struct dlk_timer horizon_timer; /* holds end */
  struct dlk_timer fresh_timer;   /* watch what is held for longer */
};

enum dlk_zk_step {
  DLK_ZK_PARKED,    /* for a connected session */
  DLK_ZK_PEEKING,   /* a try: looks whether it may hold at all */
  DLK_ZK_CREATING,  /* create under way */
  DLK_ZK_UNSETTLED, /* its answer was lost */
  DLK_ZK_SETTLING,  /* finding out */
  DLK_ZK_LISTING,   /* node is there; a list is under way or due */
  DLK_ZK_WAITING,   /* for a watch */
  DLK_ZK_READY,     /* first in line; for the horizon */
  DLK_ZK_HELD,
  DLK_ZK_RESTING, /* given back, kept by min_hold */
  DLK_ZK_LEAVING, /* being deleted */
  DLK_ZK_GONE     /* only answers under way keep it in memory */
};

/* A contender: one node in a lock's queue, from before it exists until it is
 * gone. Owned by the store; the engine's lease and op only point here. */
struct dlk_zk_node {
  struct dlk_list link;  /* in session->nodes */
  struct dlk_list fresh; /* in session->fresh or looks */
  struct dlk_list refs;  /* its watches */
  struct dlk_map_node by_guid;
  struct dlk_zk_store *store;
  struct dlk_zk_session *session;
  struct dlk_lease *lease; /* while asked for or held */
  struct dlk_op *op;       /* ACQUIRE or RELEASE under way */
  struct dlk_timer timer;
  enum dlk_zk_step step;
  enum dlk_code outcome; /* for the op, once it is gone */
  bool wait;             /* queue up */
  bool leaving;          /* to be taken out as soon as it is known */
  bool cut;              /* an answer to a delete was lost */
  bool busy;             /* counted by host->busy */
  bool watched;          /* its own watch is armed */
  bool renewing;         /* an answer to renew is owed */
  bool peeked;           /* a try: it may hold, as far as was seen */
  bool denied;           /* a parent could not be made */
  bool downgraded;
  bool revoked;
  bool first_list; /* the list that left together with create */
  bool listed;     /* it stood in the list that is judged from */
  int flying;      /* answers to come */
  int tries;
  uint32_t tag;         /* of the answer it goes on with */
  uint32_t confirm;     /* token of its last write, */
  uint32_t confirm_tag; /* whose answer has this tag */
  int32_t seq;
  int64_t czxid, sent, rest_until;
  struct dlk_want want;
  struct dlk_list extends; /* EXTENDs that wait for what its node says */
  char *guid; /* in path, where its name has it, also before that is known */
  char *head; /* name of the first in the queue, for messages */
  size_t lock_len; /* of the lock's path in path */
  char path[];     /* lock's path; its own once the name is known */
};

struct dlk_zk_op_data {
  struct dlk_zk_node *node;
  struct dlk_zk_ask *ask;
  struct dlk_op *op;       /* EXTEND: itself */
  struct dlk_list extends; /* in node->extends */
};

struct dlk_zk_lease_data {
  struct dlk_zk_node *node;
};

static inline struct dlk_zk_node **dlk_zk_node_of(struct dlk_lease *lease) {
  return &((struct dlk_zk_lease_data *)lease->data)->node;
}

static inline int64_t dlk_zk_now(struct dlk_zk_store *st) {
  return st->host->now(st->host);
}

/* ---- store.c ---- */
/* Ends op with a code and a text (printf) that names key and server. */
void dlk_zk_done(struct dlk_zk_store *st, struct dlk_op *op,
                 enum dlk_code code);
void dlk_zk_done_text(struct dlk_zk_store *st, struct dlk_op *op,
                      enum dlk_code code, const char *text);
/* What an op is told that ends while the servers do not answer: what its caller
 * asked for, else `unavailable`. */
enum dlk_code dlk_zk_unanswered(const struct dlk_op *op);
/* What a reply that is neither OK nor a cut means to an op. */
enum dlk_code dlk_zk_code(enum dlk_zk_rc rc);
/* Appends the path of the key's lock node. */
void dlk_zk_lock_path(struct dlk_zk_store *st, struct dlk_buf *out,
                      const char *key, size_t len);

/* ---- house.c ---- */
/* A session for a new contender; NULL when none can be opened. */
struct dlk_zk_session *dlk_zk_session_pick(struct dlk_zk_store *st);
/* The same for a look: the chain does not matter. */
struct dlk_zk_session *dlk_zk_session_any(struct dlk_zk_store *st);
/* Takes it out of use: it is closed once nothing of ours is left in it. */
void dlk_zk_session_retire(struct dlk_zk_session *s);
/* Something left it: close it if that was the last. */
void dlk_zk_session_tidy(struct dlk_zk_session *s);
/* The session is over: holds are lost, waiters join anew. */
void dlk_zk_session_end(struct dlk_zk_session *s, enum dlk_code code);
bool dlk_zk_send(struct dlk_zk_session *s, const struct dlk_zk_request *r,
                 dlk_zk_answer *answer, void *who, uint32_t tag);
/* Ends all sessions; the host is told when the last link is gone. */
void dlk_zk_stop(void *store);

/* ---- chain.c ---- */
/* Sends or schedules the next confirm. */
void dlk_zk_session_tick(struct dlk_zk_session *s);
/* A write of the chain was answered. */
void dlk_zk_session_confirmed(struct dlk_zk_session *s, uint32_t token,
                              bool ok);
/* A hold was granted in s: tells the host how long it counts. */
void dlk_zk_session_holds(struct dlk_zk_session *s);
/* A hold left s, and its lease was told: those of other sessions may count
 * for longer. */
void dlk_zk_session_freed(struct dlk_zk_session *s);
/* Tells the host until when all holds count. */
void dlk_zk_publish(struct dlk_zk_store *st);
/* The timers of a session: its next confirm is due; its holds end. */
void dlk_zk_confirm_fired(struct dlk_timer *timer, int64_t now);
void dlk_zk_horizon_fired(struct dlk_timer *timer, int64_t now);

/* ---- node.c ---- */
void dlk_zk_acquire(struct dlk_zk_store *st, struct dlk_op *op);
/* The session is connected (again), or a pause is over: goes on. */
void dlk_zk_node_resume(struct dlk_zk_node *n);
/* Its session is over. */
void dlk_zk_node_orphaned(struct dlk_zk_node *n, enum dlk_code code);
/* Its own node is not there any more. */
void dlk_zk_node_vanished(struct dlk_zk_node *n);
void dlk_zk_node_step(struct dlk_zk_node *n, enum dlk_zk_step step);
/* Tries again soon, or when the session is connected. */
void dlk_zk_node_stall(struct dlk_zk_node *n);
bool dlk_zk_node_send(struct dlk_zk_node *n, struct dlk_zk_request *r,
                      dlk_zk_answer *answer);
/* The same for the lock's node, whose path is the start of n's. */
bool dlk_zk_node_send_lock(struct dlk_zk_node *n, struct dlk_zk_request *r,
                           dlk_zk_answer *answer);
/* n's write was just sent, at `now`, and may be a confirm; it was answered. */
void dlk_zk_node_confirms(struct dlk_zk_node *n, int64_t now);
void dlk_zk_node_confirmed(struct dlk_zk_node *n, uint32_t tag, bool ok);
/* An answer for n came: false when nothing but its memory is left. */
bool dlk_zk_node_answered(struct dlk_zk_node *n);
/* Goes on in the session that a new contender is given; nothing of it is under
 * way. */
void dlk_zk_node_rejoin(struct dlk_zk_node *n);
void dlk_zk_node_forget_name(struct dlk_zk_node *n);
/* The path of another node of the same lock, in the store's scratch. NULL when
 * out of memory. */
const char *dlk_zk_node_sibling(struct dlk_zk_node *n, const char *name);

/* ---- line.c ---- */
/* A try looks before it writes. */
void dlk_zk_line_peek(struct dlk_zk_node *n);
/* Sends the list that the verdict is made from. */
bool dlk_zk_line_list(struct dlk_zk_node *n);
/* Lets in those of s that wait and may hold now, and marks all of s that are
 * listed. False: no memory. */
bool dlk_zk_line_admit(struct dlk_zk_session *s, const struct dlk_zk_reply *r);
/* Lists again: something changed. */
void dlk_zk_node_relist(struct dlk_zk_node *n);

/* ---- hold.c ---- */
void dlk_zk_grant(struct dlk_zk_node *n);
void dlk_zk_lose(struct dlk_zk_node *n, const char *why, bool is_gone);
void dlk_zk_release(struct dlk_zk_store *st, struct dlk_op *op);
void dlk_zk_extend(struct dlk_zk_store *st, struct dlk_op *op);
void dlk_zk_renew(void *store, struct dlk_lease *const *leases, size_t count);
/* The connection is back. */
void dlk_zk_hold_resume(struct dlk_zk_node *n);
/* Its own watch: armed (revoked: the node says so), or over: the node changed
 * (OK), is gone (NONODE), or could not be read. */
void dlk_zk_own_armed(struct dlk_zk_node *n, bool revoked);
void dlk_zk_own_over(struct dlk_zk_node *n, enum dlk_zk_rc rc);
void dlk_zk_fresh_fired(struct dlk_timer *timer, int64_t now);

/* ---- leave.c ---- */
/* Takes n out of the queue; its op ends with `outcome` once it is gone. */
void dlk_zk_leave(struct dlk_zk_node *n, enum dlk_code outcome);
void dlk_zk_delete(struct dlk_zk_node *n);
/* What the node that stands in the way says of its owner goes to the op. */
void dlk_zk_keep_holder(struct dlk_op *op, const struct dlk_zk_reply *r);
/* It is gone: answers its op and frees it. */
void dlk_zk_finish(struct dlk_zk_node *n, enum dlk_code release_code);
/* Ends its op now, unanswered; what is left goes on in the background. */
void dlk_zk_node_end_op(struct dlk_zk_node *n);
void dlk_zk_dispose(struct dlk_zk_node *n);
void dlk_zk_count_busy(struct dlk_zk_node *n);
void dlk_zk_cancel_node(struct dlk_zk_store *st, struct dlk_op *op,
                        struct dlk_zk_node *n);

/* ---- watch.c ---- */
struct dlk_zk_watch;
/* n wants to hear of path; own: it is n's own node. False: no memory. */
bool dlk_zk_watch_add(struct dlk_zk_node *n, const char *path, bool own,
                      bool list);
void dlk_zk_watch_drop(struct dlk_zk_node *n);
/* The same for a CHANGE, which starts again when the watch fires. */
struct dlk_zk_ask;
bool dlk_zk_watch_add_ask(struct dlk_zk_ask *a, const char *path, bool list);
void dlk_zk_watch_drop_ask(struct dlk_zk_ask *a);
/* What is known of a watched node: 0 nothing yet, 1 it stands as its name
 * says, 2 it was downgraded. */
int dlk_zk_watch_knows(struct dlk_zk_session *s, const char *path);
void dlk_zk_watch_event(struct dlk_zk_session *s, enum dlk_zk_event event,
                        const char *path);
void dlk_zk_watch_free_all(struct dlk_zk_session *s);

/* ---- data.c ---- */
void dlk_zk_data_format(struct dlk_buf *out, const struct dlk_lease *lease);
int64_t dlk_zk_wall_ms(void);
struct dlk_zk_data {
  char owner[128];
  const char *value; /* escaped, in the data; NULL if none */
  size_t value_len;
  bool shared, revoked;
  int64_t since_ms, ttl_ms;
};
void dlk_zk_data_parse(const char *data, size_t len, struct dlk_zk_data *out);

/* ---- ask.c ---- */
void dlk_zk_ask_cancel(struct dlk_zk_store *st, struct dlk_op *op,
                       struct dlk_zk_ask *ask);
void dlk_zk_ask_again(struct dlk_zk_ask *ask);
void dlk_zk_asks_resume(struct dlk_zk_session *s);
void dlk_zk_asks_move(struct dlk_zk_session *s);
void dlk_zk_asks_orphaned(struct dlk_list *asks, enum dlk_code code);

#endif
