/* What a store's contenders and queries share. */
#ifndef DLK_STORE_SESSION_RECIPE_STORE_H
#define DLK_STORE_SESSION_RECIPE_STORE_H

#include "core/buf.h"
#include "store/session/format/names.h"
#include "store/session/life/session.h"

struct dlk_ss_contender;
struct dlk_ss_query;

/* The servers' clock as our writes show it: the last answered one was executed
 * at `ms`, not before `sent`. */
struct dlk_ss_clock {
  int64_t ms, unsure_ms, sent;
  int64_t asked;
};

struct dlk_ss_store {
  struct dlk_host *host;
  struct dlk_conf conf;
  const struct dlk_ss_driver *driver;
  struct dlk_ss_sessions sessions;
  char *base;                     /* the folder of all locks */
  char client[DLK_SS_CLIENT + 1]; /* "" until first use */
  struct dlk_map by_guid;         /* all contenders with a name */
  struct dlk_ss_clock clock;      /* standin.c */
  struct dlk_list rests;
  struct dlk_buf scratch;
};

/* The op's contender or query. */
struct dlk_ss_op_data {
  struct dlk_ss_contender *node;
  struct dlk_ss_query *query;
  const char *refusal;     /* the servers' words, if they refuse it */
  struct dlk_op *op;       /* EXTEND: itself */
  struct dlk_list extends; /* in node->extends */
  uint32_t check;          /* tag of its check; 0: not sent */
};

struct dlk_ss_lease_data {
  struct dlk_ss_contender *node; /* while it is held */
};

static inline struct dlk_ss_op_data *dlk_ss_op_data(struct dlk_op *op) {
  return op->data;
}

static inline struct dlk_ss_store *
dlk_ss_store_of(const struct dlk_ss_session *s) {
  return DLK_CONTAINER(s->sessions, struct dlk_ss_store, sessions);
}

static inline int64_t dlk_ss_now(struct dlk_ss_store *st) {
  return st->host->now(st->host);
}

/* If the answer refuses op, its error says why. */
static inline void dlk_ss_op_heard(struct dlk_op *op,
                                   const struct dlk_ss_reply *r) {
  if (op && (r->rc == DLK_SS_FAILED || r->rc == DLK_SS_UNKNOWN ||
             r->rc == DLK_SS_THROTTLED))
    dlk_ss_op_data(op)->refusal = r->text;
}

/* Ends op; its text names key and server. */
void dlk_ss_done(struct dlk_ss_store *st, struct dlk_op *op,
                 enum dlk_code code);
void dlk_ss_done_text(struct dlk_ss_store *st, struct dlk_op *op,
                      enum dlk_code code, const char *text);
void dlk_ss_lock_path(struct dlk_ss_store *st, struct dlk_buf *out,
                      const char *key, size_t len);
/* In the store's scratch: the lock's path of `len` bytes, then '/' and name
 * unless NULL. NULL: no memory. */
const char *dlk_ss_node_path(struct dlk_ss_store *st, const char *lock,
                             size_t len, const char *name);

#endif
