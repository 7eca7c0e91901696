/* See renewal.c. For the loop's owner. */
#ifndef DLK_ENGINE_HOLD_RENEWAL_H
#define DLK_ENGINE_HOLD_RENEWAL_H

#include "engine/hold/lease.h"

/* Renews a hold on a claim now. */
void dlk_hold_confirm(struct dlk_hold *h);
void dlk_holds_run(struct dlk_loop *l, int64_t now);
/* The store has stopped: owed releases are not made. */
void dlk_holds_forget_owed(struct dlk_engine *e);
/* As in struct dlk_host. */
void dlk_hold_renewed(struct dlk_host *host, struct dlk_lease *lease,
                      int64_t sent);
void dlk_hold_renew_failed(struct dlk_host *host, struct dlk_lease *lease);
void dlk_hold_lost(struct dlk_host *host, struct dlk_lease *lease,
                   const char *why);
void dlk_hold_revoke(struct dlk_host *host, struct dlk_lease *lease);
void dlk_holds_hurry(struct dlk_host *host);
void dlk_hold_horizon(struct dlk_host *host, int64_t until);

#endif
