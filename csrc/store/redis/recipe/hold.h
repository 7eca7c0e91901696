/* A lease that is held: renewals, extensions, hand-overs in the process. */
#ifndef DLK_STORE_REDIS_RECIPE_HOLD_H
#define DLK_STORE_REDIS_RECIPE_HOLD_H

#include "store/redis/op/try.h"

/* Whether a hold ends exactly after the ttl, or then at the earliest. The
 * numbers are those of renewal.lua. */
enum dlk_redis_end { DLK_REDIS_AT_LEAST = 0, DLK_REDIS_EXACTLY = 1 };

/* ns until min_hold is over; at most 0: it is. */
int64_t dlk_redis_min_left(struct dlk_redis *s, const struct dlk_redis_hold *h);
/* How long the server keeps it: the ttl, or until min_hold is over. */
int64_t dlk_redis_span(struct dlk_redis *s, const struct dlk_redis_hold *h,
                       int64_t ttl);
/* ARGV of a renewal; ttl 0, AT_LEAST: the end stays. */
void dlk_redis_renew_args(struct dlk_redis *s, struct dlk_redis_hold *h,
                          int64_t ttl, enum dlk_redis_end end,
                          struct dlk_buf *out);
/* The answer to a renewal. True: the hold is ours. */
bool dlk_redis_extended(struct dlk_redis *s, struct dlk_redis_hold *h,
                        int64_t left, int64_t ttl, int64_t sent);
/* Tells the host if the answer says that the lock is asked for. */
void dlk_redis_asked(struct dlk_redis *s, struct dlk_redis_hold *h,
                     const struct redisReply *reply);
void dlk_redis_extend(struct dlk_redis_try *t);
/* Hears at once from now on that the lock is asked for. */
void dlk_redis_listen(struct dlk_redis_try *t);
void dlk_redis_listen_subscribed(struct dlk_redis *s, int slot);
void dlk_redis_renew(void *store, struct dlk_lease *const *leases,
                     size_t count);
void dlk_redis_hand_over(void *store, struct dlk_lease *from,
                         struct dlk_lease *to);
void dlk_redis_broken(struct dlk_redis *s, struct dlk_redis_hold *h);
int64_t dlk_redis_held_ms(struct dlk_redis *s, const struct dlk_redis_hold *h);

#endif
