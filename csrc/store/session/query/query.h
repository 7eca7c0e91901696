/* An operation that reads, or acts once, without a place in the queue: a guest
 * of a session. */
#ifndef DLK_STORE_SESSION_QUERY_QUERY_H
#define DLK_STORE_SESSION_QUERY_QUERY_H

#include "store/session/recipe/contender.h"
#include "store/session/recipe/queue.h"

/* One node of a queue, as it was read. */
struct dlk_ss_shown {
  char *data;
  size_t len;
  struct dlk_ss_stat stat;
  bool gone;
};

struct dlk_ss_query;
/* The first step of a kind; false when it could not be sent. */
typedef bool dlk_ss_first(struct dlk_ss_query *q);

struct dlk_ss_query {
  struct dlk_ss_member member;
  struct dlk_ss_store *store;
  struct dlk_op *op; /* NULL once it was answered */
  dlk_ss_first *first;
  struct dlk_timer timer;
  uint32_t tag;        /* answers of an earlier try are ignored */
  struct dlk_buf path; /* the lock's node; siblings are built behind it */
  size_t path_len;
  /* What the steps keep between answers. */
  char **names;               /* one block: pointers, then strings */
  struct dlk_ss_queue queue;  /* points into names */
  struct dlk_ss_shown *shown; /* what the nodes of the queue say */
  size_t count, pending;
  bool any, asked_time, after_break;
  bool scarce;                 /* there was no memory for what was read */
  bool crossed;                /* by another write (DLK_SS_CROSSED) */
  enum dlk_ss_purpose purpose; /* of what was sent last */
  bool settling;               /* it goes on until it is known what was done */
};

/* Runs op, from `first` on, and again from there after a cut. */
void dlk_ss_query_run(struct dlk_ss_store *st, struct dlk_op *op,
                      dlk_ss_first *first);
/* Sends; the answer comes with the query as `who`. What is under way at one
 * time has one purpose. */
bool dlk_ss_query_send(struct dlk_ss_query *q, enum dlk_ss_purpose purpose,
                       struct dlk_ss_request *r, dlk_ss_answer *answer);
/* Sends a fresh list of a folder. What is read behind it is no older. */
bool dlk_ss_query_list(struct dlk_ss_query *q, const char *path,
                       dlk_ss_answer *answer);
/* Adds a line to a node that was read: a write that is answered VERSION when
 * somebody else wrote it since. */
bool dlk_ss_query_mark(struct dlk_ss_query *q, enum dlk_ss_purpose purpose,
                       const char *path, const struct dlk_ss_shown *read,
                       const char *line, dlk_ss_answer *answer);
/* For each answer first: false when it is not wanted any more (its query may
 * be gone), or says nothing (meaning.h): the query ends, or starts again by
 * itself. True: it was answered, or what it is about is missing or was
 * crossed. */
bool dlk_ss_query_answered(struct dlk_ss_query *q, uint32_t tag,
                           const struct dlk_ss_reply *r);
/* Answers the op and frees the query. The result goes to the op. */
void dlk_ss_query_end(struct dlk_ss_query *q, enum dlk_code code,
                      struct dlk_value *result);
/* The same with what was answered, which is no result. */
void dlk_ss_query_refused(struct dlk_ss_query *q, const struct dlk_ss_reply *r);
/* Ends it well with that result, which is NULL if there was no memory for it.
 */
void dlk_ss_query_finish(struct dlk_ss_query *q, struct dlk_value *result);
/* Lets go of the op without answering it, and frees the query. */
void dlk_ss_query_detach(struct dlk_ss_query *q);
/* Copies a list of names into q->names, count. */
bool dlk_ss_query_keep(struct dlk_ss_query *q, const struct dlk_ss_reply *r);
/* Reads the queue from the names, without what is over (standin.c). True: it is
 * in q->queue. False: the server's time had to be asked for, and the query
 * starts again; or it ended, for there was no memory. */
bool dlk_ss_query_read(struct dlk_ss_query *q, const struct dlk_ss_reply *r);
/* Starts again from its first step. */
void dlk_ss_query_again(struct dlk_ss_query *q);
void dlk_ss_query_cancel(struct dlk_ss_query *q);
dlk_ss_first dlk_ss_ping_start, dlk_ss_locked_start; /* query.c */
dlk_ss_first dlk_ss_admin_start;                     /* INSPECT BREAK REVOKE */
dlk_ss_first dlk_ss_list_start;                      /* LIST */
/* Whether a LIST's cursor may be one that a list gave: it comes from outside.
 */
bool dlk_ss_list_cursor_ok(const struct dlk_op *op);
dlk_ss_first dlk_ss_guard_start;  /* GUARD DOWNGRADE */
dlk_ss_first dlk_ss_change_start; /* CHANGE */
/* The path of a contender of the lock, or (name NULL) of its own node; valid
 * until the next call. NULL when out of memory. */
const char *dlk_ss_query_path(struct dlk_ss_query *q, const char *name);

#endif
