/* An operation that looks, or acts once, without a place in the queue. */
#ifndef DLK_STORE_ZOOKEEPER_ASK_H
#define DLK_STORE_ZOOKEEPER_ASK_H

#include "store/zookeeper/internal.h"

/* One node of a queue, as it was read. */
struct dlk_zk_shown {
  char *data;
  size_t len;
  struct dlk_zk_stat stat;
  bool gone;
};

struct dlk_zk_ask;
/* The first step of a kind; false when it could not be sent. */
typedef bool dlk_zk_first(struct dlk_zk_ask *a);

struct dlk_zk_ask {
  struct dlk_list link; /* in session->asks */
  struct dlk_zk_store *store;
  struct dlk_zk_session *session;
  struct dlk_op *op; /* NULL once it was answered */
  dlk_zk_first *first;
  struct dlk_timer timer;
  int flying;
  uint32_t tag;        /* answers of an earlier try are ignored */
  struct dlk_buf path; /* the lock's node; siblings are built behind it */
  size_t path_len;
  struct dlk_zk_watch_ref *watching; /* CHANGE */
  /* What the steps keep between answers. */
  char **names;               /* one block: pointers, then strings */
  struct dlk_zk_queue queue;  /* points into names */
  struct dlk_zk_shown *shown; /* what the nodes of the queue say */
  size_t count, pending;
  bool any;
  bool crossed;  /* a node was changed between our read and our write */
  bool acting;   /* what it does was sent, and must not be done twice */
  bool settling; /* what it does was sent: it goes on until that is known */
};

/* Runs op, from `first` on, and again from there after a cut. */
void dlk_zk_ask(struct dlk_zk_store *st, struct dlk_op *op,
                dlk_zk_first *first);
/* Sends; the answer comes with the ask as `who`. */
bool dlk_zk_ask_send(struct dlk_zk_ask *a, struct dlk_zk_request *r,
                     dlk_zk_answer *answer);
/* The same for what changes something: if its answer is lost the op ends, for
 * done again it could meet somebody else. */
bool dlk_zk_ask_act(struct dlk_zk_ask *a, struct dlk_zk_request *r,
                    dlk_zk_answer *answer);
/* Adds a line to a node that was read: a write that is answered VERSION when
 * somebody else wrote it since. Whether it may be done again is the caller's
 * to say (a->acting, a->settling). */
bool dlk_zk_ask_mark(struct dlk_zk_ask *a, const char *path,
                     const struct dlk_zk_shown *read, const char *line,
                     dlk_zk_answer *answer);
/* For each answer first: false when it is not wanted any more (its ask may
 * be gone). A cut is dealt with: the ask ends, or starts again by itself. */
bool dlk_zk_ask_answered(struct dlk_zk_ask *a, uint32_t tag,
                         const struct dlk_zk_reply *r);
/* Answers the op and frees the ask. The result goes to the op. */
void dlk_zk_ask_end(struct dlk_zk_ask *a, enum dlk_code code,
                    struct dlk_value *result);
/* Lets go of the op without answering it, and frees the ask. */
void dlk_zk_ask_detach(struct dlk_zk_ask *a);
/* Copies a list of names into a->names, count. */
bool dlk_zk_ask_keep(struct dlk_zk_ask *a, const struct dlk_zk_reply *r);
dlk_zk_first dlk_zk_ping_start, dlk_zk_locked_start; /* ask.c */
dlk_zk_first dlk_zk_admin_start;                     /* INSPECT BREAK REVOKE */
dlk_zk_first dlk_zk_list_start;                      /* LIST */
dlk_zk_first dlk_zk_guard_start;                     /* GUARD DOWNGRADE */
dlk_zk_first dlk_zk_change_start;                    /* CHANGE */
/* The path of a contender of the lock, or (name NULL) of its own node; valid
 * until the next call. NULL when out of memory. */
const char *dlk_zk_ask_path(struct dlk_zk_ask *a, const char *name);

#endif
