/* One operation under way: its requests, missing answers (rules.h), its end. */
#ifndef DLK_STORE_REDIS_OP_TRY_H
#define DLK_STORE_REDIS_OP_TRY_H

#include "store/redis/op/call.h"
#include "store/redis/op/lease.h"

struct dlk_redis_try;
typedef void dlk_redis_do(struct dlk_redis_try *t);
typedef void dlk_redis_write(struct dlk_redis_try *t, struct dlk_buf *out);

/* One kind of request, and what may follow from it. */
struct dlk_redis_step {
  enum dlk_redis_aim aim;
  int script; /* enum dlk_redis_script, or DLK_REDIS_NO_SCRIPT */
  /* ARGV of the script, or a whole command with one reply; may be NULL. */
  dlk_redis_write *args;
  /* A good answer. */
  void (*answer)(struct dlk_redis_try *t, const struct redisReply *reply);
  /* Sends it again; NULL: as it is. */
  dlk_redis_do *again;
  /* Begins anew with another token, and takes the old one back. */
  dlk_redis_do *anew;
  /* The op ends: takes back in the background what may stand on the server;
   * NULL: that is left to its end. */
  dlk_redis_do *back;
  /* Leaves, and goes on to the end from there. */
  dlk_redis_do *leave;
  const char *deed; /* "the break": what may have been done */
};

/* op->data */
struct dlk_redis_try {
  struct dlk_redis *store;
  struct dlk_op *op;
  struct dlk_redis_call call;
  const struct dlk_redis_step *step; /* the last one */
  struct dlk_timer timer;
  struct dlk_list entry;           /* in store->waits, or watches */
  const struct dlk_error *trouble; /* kept: why there is no answer; */
  bool scarce, over;               /* it is replicas; it is over (try.c) */
  bool answered;                   /* the server gave an answer once */
  bool unsure; /* an attempt of unknown outcome went before */
  bool placed; /* something of ours stands on the server for sure */
  union {
    struct {
      bool news;       /* a message came while a request was under way */
      uint16_t moment; /* to ask in, as drawn: see wait.c */
      uint32_t rank, stands_at;        /* the same but for an eighth, */
      int64_t stands_since;            /* since then */
      int64_t waited_at, waited_fence; /* of the last `wait`: sent, and F */
      char order[24];
      const struct dlk_redis_step *got_by; /* whose answer was a grant */
    } acquire;
    struct {
      bool ours; /* a request found our token */
    } release;
    struct {
      bool news;
    } change;
    struct {
      unsigned steps; /* of this page */
      size_t found;   /* on it */
      char cursor[24];
      char node[DLK_REDIS_NODE_ID]; /* of a cluster, by its id */
    } list;
  };
};

static inline struct dlk_redis_try *dlk_redis_try_of(struct dlk_op *op) {
  return op->data;
}

static inline struct dlk_redis_hold *
dlk_redis_try_hold(struct dlk_redis_try *t) {
  return dlk_redis_hold_of(t->op->lease);
}

/* The next request. */
void dlk_redis_send(struct dlk_redis_try *t, const struct dlk_redis_step *step);
/* Waits for something else; dlk_redis_no_answer tells of its failure. */
void dlk_redis_await(struct dlk_redis_try *t,
                     const struct dlk_redis_step *step);
/* No answer: applies the step's rule. err: why, or NULL. */
void dlk_redis_no_answer(struct dlk_redis_try *t,
                         enum dlk_redis_verdict verdict,
                         const struct dlk_error *err);
/* A good answer, but too few replicas have it. */
void dlk_redis_scarce(struct dlk_redis_try *t);
/* The caller gives up; the answer to a written request ends the op. */
void dlk_redis_cancel(struct dlk_redis_try *t);

/* Ends the op; NULL: well. */
void dlk_redis_done(struct dlk_redis_try *t, const struct dlk_error *err);
void dlk_redis_done_code(struct dlk_redis_try *t, enum dlk_code code);
/* Ends the op with v; NULL: out of memory. */
void dlk_redis_finish(struct dlk_redis_try *t, struct dlk_value *v);
void dlk_redis_done_odd(struct dlk_redis_try *t);
/* Ends the op by its `ending`. */
void dlk_redis_give_up(struct dlk_redis_try *t);
void dlk_redis_trouble(struct dlk_redis_try *t, const struct dlk_error *why);

#endif
