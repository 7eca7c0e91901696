/* What was released lately, where another server may take over without having
 * heard of it. */
#ifndef DLK_STORE_REDIS_OP_RELEASED_H
#define DLK_STORE_REDIS_OP_RELEASED_H

#include "store/redis/op/try.h"

/* The op's lease was released, and the server said so. */
void dlk_redis_released_note(struct dlk_redis_try *t);
/* Another server answers now. */
void dlk_redis_released_again(struct dlk_redis *s);
void dlk_redis_released_free(struct dlk_redis *s);

#endif
