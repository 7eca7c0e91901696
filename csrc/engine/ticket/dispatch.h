/* See dispatch.c. For the loop's owner, except dlk_dispatch_new. */
#ifndef DLK_ENGINE_TICKET_DISPATCH_H
#define DLK_ENGINE_TICKET_DISPATCH_H

#include "engine/ticket/ticket.h"

/* A ticket ready to be started by its post. */
struct dlk_ticket *dlk_dispatch_new(struct dlk_engine *e,
                                    const struct dlk_request *r);
/* Gives t a place in an existing local queue, which needs neither store nor
 * libuv. Returns false and does nothing if there is none. */
bool dlk_dispatch_queue_up(struct dlk_ticket *t);
void dlk_dispatch_done(struct dlk_host *host, struct dlk_op *op,
                       const struct dlk_error *err);
/* The store has stopped and forgot this op. */
void dlk_dispatch_forget(struct dlk_ticket *t);
/* Passes a held hold on instead of a release. Returns false if it cannot. */
bool dlk_dispatch_pass(struct dlk_hold *h);

extern const struct dlk_lease_calls dlk_dispatch_lease_calls;

#endif
