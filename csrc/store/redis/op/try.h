/* One operation under way, and its end. */
#ifndef DLK_STORE_REDIS_OP_TRY_H
#define DLK_STORE_REDIS_OP_TRY_H

#include "store/redis/op/call.h"
#include "store/redis/op/lease.h"

enum dlk_redis_step {
  DLK_REDIS_IDLE,
  DLK_REDIS_TRYING,
  DLK_REDIS_SEEDING,
  DLK_REDIS_DEAF_STEP, /* waits for the subscription */
  DLK_REDIS_JOINING,   /* join or refresh is under way */
  DLK_REDIS_WAITING,
  DLK_REDIS_LEAVING
};

/* op->data */
struct dlk_redis_try {
  struct dlk_redis *store;
  struct dlk_op *op;
  struct dlk_redis_call call;
  struct dlk_timer timer;
  struct dlk_list entry; /* in store->waits, or watches */
  enum dlk_redis_step step;
  bool joined; /* this token has a place in the queue */
  bool news;   /* a message came while a request was under way */
  bool unsure; /* one of unknown outcome went before: a release, an attach */
  bool ours;   /* a release found our token */
  bool alone;  /* its MULTI was refused, its SET may have been done */
  bool answered;
  uint32_t rank;
  int64_t waited_at, waited_fence; /* of the last `wait`: sent, and F */
  char order[24];
  const struct dlk_error *trouble; /* kept: why there is no answer */
};

static inline struct dlk_redis_try *dlk_redis_try_of(struct dlk_op *op) {
  return op->data;
}

static inline struct dlk_redis_try *
dlk_redis_try_by(struct dlk_redis_call *call) {
  return DLK_CONTAINER(call, struct dlk_redis_try, call);
}

static inline struct dlk_redis_hold *
dlk_redis_try_hold(struct dlk_redis_try *t) {
  return dlk_redis_hold_of(t->op->lease);
}

/* Ends the op; NULL: well. */
void dlk_redis_done(struct dlk_redis_try *t, const struct dlk_error *err);
void dlk_redis_done_code(struct dlk_redis_try *t, enum dlk_code code);
/* Ends the op with v; NULL: out of memory. */
void dlk_redis_finish(struct dlk_redis_try *t, struct dlk_value *v);
/* A reply that no server of ours would give. */
void dlk_redis_done_odd(struct dlk_redis_try *t);
/* Ends the op early, in the way that its `ending` asks for. */
void dlk_redis_give_up(struct dlk_redis_try *t);

/* There was an answer: whatever trouble there had been is over. */
void dlk_redis_answered(struct dlk_redis_try *t);
/* Notes why there is no answer. */
void dlk_redis_trouble(struct dlk_redis_try *t, const struct dlk_error *why);
/* Whether a request that was not executed is worth sending again. */
bool dlk_redis_patient(struct dlk_redis_try *t);
/* No answer: `again`, while that may help, or the op's end. */
void dlk_redis_retry(struct dlk_redis_try *t, const struct dlk_redis_result *r,
                     void (*again)(struct dlk_redis_try *));
/* False: there is an answer. Else a request that may be repeated was sent once
 * more, or the op has ended. */
bool dlk_redis_failed(struct dlk_redis_try *t,
                      const struct dlk_redis_result *r);
/* The same for what must not be sent twice: the op has ended. */
bool dlk_redis_unrepeated(struct dlk_redis_try *t,
                          const struct dlk_redis_result *r, const char *what);
/* A wait is over: has the server forget it, if it knows it. */
void dlk_redis_withdraw(struct dlk_redis_try *t, enum dlk_redis_script script,
                        dlk_redis_args *encode, dlk_redis_on_answer *answer);

#endif
