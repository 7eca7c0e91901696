/* A link's requests, where servers do calls side by side (etcd, Consul).
 *
 * A1. Order (D1) is kept here. An ask begins when no earlier one of the same
 *     lock, of which one writes, is under way, and `most` at a time are. All
 *     are answered in the order in which they came.
 * A2. A create lists the lock in its own transaction. The LIST that follows at
 *     once (`leads`) is answered by that: an acquire is one round trip.
 *
 *   QUEUED -> FLYING -> DONE           start, dlk_ss_ask_end
 *   QUEUED -> DONE                     at_once: it needs no call */
#ifndef DLK_STORE_SESSION_ASKS_ASKS_H
#define DLK_STORE_SESSION_ASKS_ASKS_H

#include "core/buf.h"
#include "core/list.h"
#include "store/session/driver.h"

#define DLK_SS_TEXTS 16

enum dlk_ss_phase { DLK_SS_QUEUED, DLK_SS_FLYING, DLK_SS_ASK_DONE };

struct dlk_ss_ask {
  struct dlk_list link;
  struct dlk_ss_asks *in;
  dlk_ss_answer *answer;
  void *who;
  uint32_t tag;
  enum dlk_ss_verb verb;
  enum dlk_ss_phase phase;
  enum dlk_ss_rc rc;
  const char *text;
  int64_t sent;
  uint32_t lock; /* of its folder's name; 0: all locks */
  bool writes, watch, rides, at_once;
  char *path;
};

struct dlk_ss_asks_type {
  const char *room; /* for the trace */
  size_t size;      /* of an ask, which begins with the above */
  /* Makes its message. False: no memory. */
  bool (*put)(struct dlk_ss_ask *a, const struct dlk_ss_request *q);
  void (*start)(struct dlk_ss_ask *a);
  /* Reads the answer of a DONE one, and tells it (dlk_ss_ask_told). False: the
   * link is down. */
  bool (*tell)(struct dlk_ss_ask *a);
  void (*free)(struct dlk_ss_ask *a); /* what it has besides */
};

struct dlk_ss_asks {
  struct dlk_list list;
  const struct dlk_ss_asks_type *type;
  struct dlk_host *host;
  const char *base; /* the folder of all locks */
  char **texts;     /* servers' words, kept for replies: DLK_SS_TEXTS */
  bool delivering, closed;
  int most;   /* begin; the link's */
  int others; /* calls besides, which count */
  bool full;  /* one waited for a call's end */
};

static inline struct dlk_ss_ask *dlk_ss_ask_at(struct dlk_list *l) {
  return DLK_CONTAINER(l, struct dlk_ss_ask, link);
}

/* Into the list. up: it begins, if it may. False: no memory. */
bool dlk_ss_asks_add(struct dlk_ss_asks *all, const struct dlk_ss_request *q,
                     dlk_ss_answer *answer, void *who, uint32_t tag, bool up);
/* text: for people; it is copied. */
void dlk_ss_ask_end(struct dlk_ss_ask *a, enum dlk_ss_rc rc, const char *text);
/* The ask behind a create that is answered by it, as the create is; or NULL. */
struct dlk_ss_ask *dlk_ss_ask_rider(struct dlk_ss_ask *a);
/* Takes it out, answers and frees it. */
void dlk_ss_ask_told(struct dlk_ss_ask *a, const struct dlk_ss_reply *r);
bool dlk_ss_ask_is_base(const struct dlk_ss_ask *a);
/* The next answer may be told. */
bool dlk_ss_asks_ready(const struct dlk_ss_asks *all);
/* Answers those that are done, in order. False: the link is down. */
bool dlk_ss_asks_deliver(struct dlk_ss_asks *all);
/* Begins those that may. */
void dlk_ss_asks_start(struct dlk_ss_asks *all);
/* All are answered CUT; NULL, at the link's close: nobody is any more. */
void dlk_ss_asks_end(struct dlk_ss_asks *all, const char *why);
/* Replies' texts live on: the last few are kept, and more are not told. */
const char *dlk_ss_keep_text(char *texts[DLK_SS_TEXTS], const char *text);
void dlk_ss_free_texts(char *texts[DLK_SS_TEXTS]);

/* ---- what an answer lists, and what a guard writes ---- */

struct dlk_ss_listed {
  struct dlk_buf text; /* names, NUL-ended */
  size_t count;
  char **names;
};

/* To r. False: no memory. */
bool dlk_ss_listed_tell(struct dlk_ss_listed *l, struct dlk_ss_reply *r);
void dlk_ss_listed_free(struct dlk_ss_listed *l);

struct dlk_ss_write {
  const char *key, *value; /* NULL: a delete */
  size_t len, value_len;
};

/* Of "PUT", key, value and "DELETE", key, as many as there are, the one at *at,
 * which moves on. False: it is none. */
bool dlk_ss_guard_next(const struct dlk_op *op, size_t *at,
                       struct dlk_ss_write *out);
/* Those that there are; 0: some are none. */
size_t dlk_ss_guard_count(const struct dlk_op *op);

#endif
