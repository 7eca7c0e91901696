/* What the store keeps of a lease (lease->data), from candidate to hold. */
#ifndef DLK_STORE_REDIS_OP_LEASE_H
#define DLK_STORE_REDIS_OP_LEASE_H

#include "store/redis/op/call.h"

/* Why a hold is lost that break_lock ended. */
#define DLK_REDIS_BROKEN "it was broken by an administrator"

struct dlk_redis_hold {
  struct dlk_lease *lease;
  struct dlk_op *waiting;     /* the acquire that still waits, or NULL: held */
  struct dlk_redis_call call; /* renewals */
  struct dlk_redis_token token;
  int64_t server_min_end; /* the server keeps it so long at least */
  uint64_t server_epoch;  /* link->moves when server_min_end was set */
  int64_t server_max_end; /* the server keeps it no longer */
  int64_t granted;        /* for min_hold */
  bool extended;          /* since the grant */
  bool crowded;           /* others queued for it */
  bool listens;           /* who holds it wants to know when it is asked for */
  bool noted;             /* the server keeps notes of it (info) */
  bool broken; /* it is lost, said a message that crossed a renewal */
};

static inline struct dlk_redis_hold *dlk_redis_hold_of(struct dlk_lease *l) {
  return l->data;
}

/* Whose token that is. */
static inline struct dlk_redis_hold *
dlk_redis_hold_by(struct dlk_redis_token *token) {
  return DLK_CONTAINER(token, struct dlk_redis_hold, token);
}

#endif
