/* The values of inspect (docs/reference.md). They take over the values given,
 * and return NULL without memory. */
#ifndef DLK_STORE_KIT_SHOWN_H
#define DLK_STORE_KIT_SHOWN_H

#include "store/store.h"

/* In seconds; below 0, or an empty owner: not known. */
struct dlk_value *dlk_shown_holder(struct dlk_value *owner,
                                   struct dlk_want want, int64_t fence,
                                   double ttl, double since);
struct dlk_value *dlk_shown_waiter(struct dlk_value *owner,
                                   struct dlk_want want, double waited);
/* first: of the first holder, or if not held, of the first waiter. */
struct dlk_value *dlk_shown_key(const struct dlk_op *op, struct dlk_want first,
                                bool held, struct dlk_value *holders,
                                struct dlk_value *waiters);

#endif
