/* An operation without a place in the queue: a guest of a session. */
#ifndef DLK_STORE_SESSION_QUERY_QUERY_H
#define DLK_STORE_SESSION_QUERY_QUERY_H

#include "store/session/recipe/contender.h"

/* A queue's node, as read. */
struct dlk_ss_shown {
  char *data;
  size_t len;
  struct dlk_ss_stat stat;
  bool gone;
};

struct dlk_ss_query;
/* A kind's first step; false: not sent. */
typedef bool dlk_ss_first(struct dlk_ss_query *q);
/* An answer: done, missing or crossed (meaning.h). Any other ends the query or
 * starts it over. */
typedef void dlk_ss_heard(struct dlk_ss_query *q, const struct dlk_ss_reply *r);

struct dlk_ss_query {
  struct dlk_ss_member member;
  struct dlk_ss_store *store;
  struct dlk_op *op; /* NULL once answered */
  dlk_ss_first *first;
  struct dlk_timer timer;
  uint32_t tag;        /* earlier answers are ignored */
  struct dlk_buf path; /* the lock's; siblings are built behind */
  size_t path_len;
  char **names;               /* one block */
  struct dlk_ss_queue queue;  /* points into names */
  struct dlk_ss_shown *shown; /* the queue's nodes */
  size_t count, pending;
  bool any, asked_time, after_break;
  bool scarce;  /* no memory for what was read */
  bool crossed; /* DLK_SS_CROSSED */
  /* Of all requests under way. */
  enum dlk_ss_purpose purpose;
  dlk_ss_heard *heard;
  bool settling; /* goes on until it is known what was done */
};

/* Runs op from `first` on, and again after a cut. */
void dlk_ss_query_run(struct dlk_ss_store *st, struct dlk_op *op,
                      dlk_ss_first *first);
void dlk_ss_query_cancel(struct dlk_ss_query *q);
dlk_ss_first dlk_ss_ping_start, dlk_ss_locked_start;
dlk_ss_first dlk_ss_admin_start; /* INSPECT BREAK REVOKE */
dlk_ss_first dlk_ss_list_start;
dlk_ss_first dlk_ss_guard_start;    /* GUARD DOWNGRADE */
dlk_ss_first dlk_ss_change_start;   /* CHANGE */
dlk_ss_first dlk_ss_portable_start; /* DETACH ATTACH PROLONG */
/* A cursor comes from outside. */
bool dlk_ss_list_cursor_ok(const struct dlk_op *op);

/* A contender's path, or (name NULL) the lock's, until the next call. NULL: no
 * memory. */
const char *dlk_ss_query_path(struct dlk_ss_query *q, const char *name);
/* These send; false: nothing was sent. */
bool dlk_ss_query_send(struct dlk_ss_query *q, enum dlk_ss_purpose purpose,
                       struct dlk_ss_request *r, dlk_ss_heard *heard);
/* A fresh list of a folder. Reads behind it are no older. */
bool dlk_ss_query_list(struct dlk_ss_query *q, const char *path,
                       dlk_ss_heard *heard);
bool dlk_ss_query_get(struct dlk_ss_query *q, size_t place,
                      dlk_ss_heard *heard);
/* Adds a line to a node that was read: VERSION if written since. */
bool dlk_ss_query_mark(struct dlk_ss_query *q, enum dlk_ss_purpose purpose,
                       const char *path, const struct dlk_ss_shown *read,
                       const char *line, dlk_ss_heard *heard);
/* Copies names into q->names, count. */
bool dlk_ss_query_keep(struct dlk_ss_query *q, const struct dlk_ss_reply *r);
/* Fills q->queue, without stand-ins past their end. False: it asks for the
 * servers' time and starts over, or ended for want of memory. */
bool dlk_ss_query_read(struct dlk_ss_query *q, const struct dlk_ss_reply *r);
/* Starts over. */
void dlk_ss_query_again(struct dlk_ss_query *q);
/* The op takes the result; frees q. */
void dlk_ss_query_end(struct dlk_ss_query *q, enum dlk_code code,
                      struct dlk_value *result);
void dlk_ss_query_refused(struct dlk_ss_query *q, const struct dlk_ss_reply *r);
/* Ends it well; result NULL: no memory. */
void dlk_ss_query_finish(struct dlk_ss_query *q, struct dlk_value *result);
/* Frees q without an answer. */
void dlk_ss_query_detach(struct dlk_ss_query *q);

#endif
