/* The store: what its contenders and queries share. */
#ifndef DLK_STORE_SESSION_RECIPE_STORE_H
#define DLK_STORE_SESSION_RECIPE_STORE_H

#include "core/buf.h"
#include "store/session/format/names.h"
#include "store/session/life/session.h"

struct dlk_ss_contender;
struct dlk_ss_query;

/* The server's clock, as our own writes show it: the last one that was
 * answered was executed at `ms`, not before we sent it (`sent`). */
struct dlk_ss_clock {
  int64_t ms, sent;
  int64_t asked; /* when we last asked for it */
};

struct dlk_ss_store {
  struct dlk_host *host;
  struct dlk_conf conf;
  const struct dlk_ss_driver *driver;
  struct dlk_ss_sessions sessions;
  char *base;                     /* the folder that all locks are in */
  char client[DLK_SS_CLIENT + 1]; /* "" until first use */
  struct dlk_map by_guid;         /* all contenders with a name */
  struct dlk_ss_clock clock;      /* standin.c */
  struct dlk_list rests;
  struct dlk_buf scratch;
};

/* What an operation belongs to: one of the two, or nothing. */
struct dlk_ss_op_data {
  struct dlk_ss_contender *node;
  struct dlk_ss_query *query;
  const char *refusal;     /* what the servers said, if they refuse it */
  struct dlk_op *op;       /* EXTEND: itself */
  struct dlk_list extends; /* in node->extends, */
  uint32_t check; /* whose question has this tag; 0: it was not sent yet */
};

struct dlk_ss_lease_data {
  struct dlk_ss_contender *node; /* while it is held */
};

static inline struct dlk_ss_op_data *dlk_ss_op_data(struct dlk_op *op) {
  return op->data;
}

static inline int64_t dlk_ss_now(struct dlk_ss_store *st) {
  return st->host->now(st->host);
}

/* What op asked for was answered so: if it is refused, its error says how. */
static inline void dlk_ss_op_heard(struct dlk_op *op,
                                   const struct dlk_ss_reply *r) {
  if (op && (r->rc == DLK_SS_FAILED || r->rc == DLK_SS_UNKNOWN ||
             r->rc == DLK_SS_THROTTLED))
    dlk_ss_op_data(op)->refusal = r->text;
}

/* Ends op with a code and a text (printf) that names key and server. */
void dlk_ss_done(struct dlk_ss_store *st, struct dlk_op *op,
                 enum dlk_code code);
void dlk_ss_done_text(struct dlk_ss_store *st, struct dlk_op *op,
                      enum dlk_code code, const char *text);
/* Appends the path of the key's lock node. */
void dlk_ss_lock_path(struct dlk_ss_store *st, struct dlk_buf *out,
                      const char *key, size_t len);

#endif
