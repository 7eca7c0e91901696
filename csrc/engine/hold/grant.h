/* What becomes of a grant: see grant.c. By the loop's owner. */
#ifndef DLK_ENGINE_HOLD_GRANT_H
#define DLK_ENGINE_HOLD_GRANT_H

#include "engine/ticket/ticket.h"

/* An acquire or attach was granted: by the store, or by a hand-over. */
void dlk_granted(struct dlk_ticket *t, int64_t now);
/* The hold is to be released, and is held. True: it was handed over instead,
 * and is released. */
bool dlk_grant_pass(struct dlk_hold *h);

#endif
