/* Tokens without a holder are taken back in the background. */
#ifndef DLK_STORE_REDIS_OP_ORPHAN_H
#define DLK_STORE_REDIS_OP_ORPHAN_H

#include "store/redis/op/call.h"

/* ARGV of the leave script; rest: ns for which the token must still stand. */
void dlk_redis_leave_args(struct dlk_buf *out,
                          const struct dlk_redis_token *token, int64_t rest);

/* Takes the token back; at `until` the server has forgotten it by itself. */
void dlk_redis_orphan(struct dlk_redis *s, const char *key, size_t key_len,
                      const struct dlk_redis_token *token, int64_t until);
/* An attach of unknown outcome: gives the hold back to the token that it was
 * detached with. */
void dlk_redis_orphan_attach(struct dlk_redis *s, const struct dlk_lease *lease,
                             const struct dlk_redis_token *token,
                             const char *back, size_t back_len, int64_t until);
/* Whether that is a token which is being taken back: who has it holds nothing.
 */
bool dlk_redis_is_orphan(const struct dlk_redis *s, const char *text,
                         size_t len);
void dlk_redis_orphans_end(struct dlk_redis *s);

#endif
