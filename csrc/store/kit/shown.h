/* The values of inspect, as docs/reference.md has them. Each of these takes
 * over the values that it is given; out of memory it returns NULL. */
#ifndef DLK_STORE_KIT_SHOWN_H
#define DLK_STORE_KIT_SHOWN_H

#include "store/store.h"

/* Times in seconds; ttl below 0: not known. */
struct dlk_value *dlk_shown_holder(struct dlk_value *owner,
                                   struct dlk_want want, int64_t fence,
                                   double ttl, double since);
struct dlk_value *dlk_shown_waiter(struct dlk_value *owner,
                                   struct dlk_want want, double waited);
/* The key of the op. first: of its first holder, or if there is none (held
 * false), of its first waiter. */
struct dlk_value *dlk_shown_key(const struct dlk_op *op, struct dlk_want first,
                                bool held, struct dlk_value *holders,
                                struct dlk_value *waiters);

#endif
