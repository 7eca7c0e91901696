/* See dispatch.c. For the loop's owner, except dlk_dispatch_new. */
#ifndef DLK_ENGINE_TICKET_DISPATCH_H
#define DLK_ENGINE_TICKET_DISPATCH_H

#include "engine/ticket/ticket.h"

/* A ticket ready to be started by its post. */
struct dlk_ticket *dlk_dispatch_new(struct dlk_engine *e,
                                    const struct dlk_request *r);
/* Gives t a place in an existing local queue, without store and libuv. False:
 * there is none. */
bool dlk_dispatch_queue_up(struct dlk_ticket *t);
void dlk_dispatch_done(struct dlk_host *host, struct dlk_op *op,
                       const struct dlk_error *err);
/* The store has stopped without its end. */
void dlk_dispatch_forget(struct dlk_ticket *t);
/* Hands a held hold over instead of a release. False: it cannot. */
bool dlk_dispatch_pass(struct dlk_hold *h);

extern const struct dlk_lease_calls dlk_dispatch_lease_calls;

#endif
