/* What all ways to a lock share: tokens, and the grant. */
#ifndef DLK_STORE_REDIS_RECIPE_CANDIDATE_H
#define DLK_STORE_REDIS_RECIPE_CANDIDATE_H

#include "store/redis/op/try.h"

/* The first ARGV of the scripts take, try, join and refresh. */
void dlk_redis_acquire_args(struct dlk_redis_try *t, struct dlk_buf *out);
/* claim: 0, or when it must be confirmed by. */
void dlk_redis_granted(struct dlk_redis_try *t, int64_t fence, int64_t sent,
                       int64_t claim);
/* Its first token, or the next one. */
void dlk_redis_draw_token(struct dlk_redis_try *t);
/* The server forgot the token, or it came to nothing: goes on with a new one.
 */
void dlk_redis_new_token(struct dlk_redis_try *t);
/* The token's outcome is unknown, or it stands on the server: the same, and the
 * old one is taken back in the background. */
void dlk_redis_token_back(struct dlk_redis_try *t);
/* The same; what `first` sends with the new token goes before that. */
void dlk_redis_replace_token(struct dlk_redis_try *t, dlk_redis_do *first);
/* What the server names as the holder, for messages. */
void dlk_redis_held_by(struct dlk_redis_try *t, const struct redisReply *value);
/* The server said that others share under another limit. */
void dlk_redis_other_limit(struct dlk_redis_try *t);

#endif
