/* Requests on a hold: see on_hold.c. By the loop's owner. */
#ifndef DLK_ENGINE_HOLD_ON_HOLD_H
#define DLK_ENGINE_HOLD_ON_HOLD_H

#include "engine/ticket/ticket.h"

void dlk_on_hold_start(struct dlk_ticket *t);
/* The store is done with it. */
void dlk_on_hold_done(struct dlk_ticket *t, const struct dlk_error *err);
/* The hold is HELD no longer, but `state`. */
void dlk_on_hold_left(struct dlk_hold *h, enum dlk_hold_state state);
/* The store was stopped: nothing that waits for it is started. */
void dlk_on_hold_forget(struct dlk_hold *h);

#endif
