/* Leases that go from process to process. */
#ifndef DLK_STORE_REDIS_RECIPE_ATTACH_H
#define DLK_STORE_REDIS_RECIPE_ATTACH_H

#include "store/redis/op/try.h"

void dlk_redis_detach(struct dlk_redis_try *t);
void dlk_redis_attach(struct dlk_redis_try *t);
void dlk_redis_prolong(struct dlk_redis_try *t);

/* op->text gets its hold back: an attach may have been done, and nobody will
 * ask again. */
void dlk_redis_undo_attach(struct dlk_redis_try *t);

#endif
