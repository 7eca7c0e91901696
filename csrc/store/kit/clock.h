/* Whether a server's clock stepped, which a store's holds show. */
#ifndef DLK_STORE_KIT_CLOCK_H
#define DLK_STORE_KIT_CLOCK_H

#include "store/host.h"

/* Reports, once a minute, a hold that has another time left on the server than
 * we count: `left` is what the server says, `least` and `most` are ours. *told:
 * when it was reported last, or 0. */
void dlk_clock_compare(struct dlk_host *host, const char *shown, int64_t *told,
                       int64_t left, int64_t least, int64_t most);

#endif
