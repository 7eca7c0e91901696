/* What a Redlock's node is asked for: votes in place of locks. */
#ifndef DLK_STORE_REDIS_RECIPE_VOTE_H
#define DLK_STORE_REDIS_RECIPE_VOTE_H

#include "store/redis/op/try.h"

/* After a node's start a repair waits for it, and no round takes longer. */
#define DLK_REDIS_REPAIRS_AFTER (3 * DLK_SEC)
/* A CHANGE of this fence ends when nobody holds the key. */
#define DLK_REDIS_ANYBODY DLK_FENCE_END

/* A refused vote's op->fence: the holder's name comes before ours; or it counts
 * by a list of another length. */
enum { DLK_REDIS_SMALLER = 1, DLK_REDIS_OTHER_LIST };

/* op->text: DLK_REDIS_NAME digits. op->limit: how many nodes are listed.
 * lease->fence: 0, or a repair's, which is the least that the counter gets. */
void dlk_redis_vote(struct dlk_redis_try *t);

#endif
