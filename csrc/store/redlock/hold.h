/* A hold and its votes: see hold.c. */
#ifndef DLK_STORE_REDLOCK_HOLD_H
#define DLK_STORE_REDLOCK_HOLD_H

#include "store/redlock/state.h"

/* lease->data */
struct dlk_redlock_lease {
  struct dlk_redlock_hold *hold; /* NULL: none */
  char owner[DLK_HOLDER_MAX];    /* as an attach found it */
};

/* op->data: that of ACQUIRE and ATTACH is in the lease. */
struct dlk_redlock_op {
  struct dlk_redlock_poll *poll;
};

static inline struct dlk_redlock_hold *
dlk_redlock_hold_of(const struct dlk_lease *lease) {
  return ((struct dlk_redlock_lease *)lease->data)->hold;
}

/* ACQUIRE and ATTACH. */
void dlk_redlock_acquire(struct dlk_redlock *s, struct dlk_op *op);
void dlk_redlock_give_up(struct dlk_redlock *s, struct dlk_op *op);
void dlk_redlock_renew(void *store, struct dlk_lease *const *leases,
                       size_t count);
/* The lease has ended; NULL: by a release of its votes. */
void dlk_redlock_leave(struct dlk_redlock_hold *h, const char *why);
/* I7 of store.h, by the ends of the votes. */
int64_t dlk_redlock_sent(const struct dlk_redlock_hold *h, int64_t ttl);
/* Takes it from its hold; its node keeps it. */
void dlk_redlock_take(struct dlk_redlock_vote *v);
/* The same, as its node has lost it. */
void dlk_redlock_drop(struct dlk_redlock_vote *v, const char *why);

/* What the facade tells of leases. */
extern const struct dlk_host dlk_redlock_votes;

#endif
