/* What all ways to a lock share. */
#ifndef DLK_STORE_REDIS_RECIPE_CANDIDATE_H
#define DLK_STORE_REDIS_RECIPE_CANDIDATE_H

#include "store/redis/op/try.h"

/* The first ARGV of the scripts take, try, join and refresh. */
void dlk_redis_acquire_args(struct dlk_redis_try *t, struct dlk_buf *out);
/* claim: 0, or when it must be confirmed by. */
void dlk_redis_granted(struct dlk_redis_try *t, int64_t fence, int64_t sent,
                       int64_t claim);
void dlk_redis_draw_token(struct dlk_redis_try *t);
/* The token came to nothing: goes on with a new one. */
void dlk_redis_new_token(struct dlk_redis_try *t);
/* The same, and the old one is taken back: it may stand on the server. */
void dlk_redis_token_back(struct dlk_redis_try *t);
/* The same; what `first` sends with the new token goes before that. */
void dlk_redis_replace_token(struct dlk_redis_try *t, dlk_redis_do *first);
/* The holder that the server names, for messages. */
void dlk_redis_held_by(struct dlk_redis_try *t, const struct redisReply *value);
/* The server said that others share under another limit. */
void dlk_redis_other_limit(struct dlk_redis_try *t);

#endif
