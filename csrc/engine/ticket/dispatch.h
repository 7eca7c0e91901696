/* Where a request goes, and what becomes of its answer: see dispatch.c. By the
 * loop's owner, but for dlk_dispatch_new. */
#ifndef DLK_ENGINE_TICKET_DISPATCH_H
#define DLK_ENGINE_TICKET_DISPATCH_H

#include "engine/ticket/ticket.h"

/* A ticket that is ready to be started by its post `start`. */
struct dlk_ticket *dlk_dispatch_new(struct dlk_engine *e,
                                    const struct dlk_request *r);
/* Gives it a place behind others in the local queue of its key, which needs
 * neither the store nor libuv; false: there is none, and nothing was done. */
bool dlk_dispatch_queue_up(struct dlk_ticket *t);
/* As struct dlk_host, done. */
void dlk_dispatch_done(struct dlk_host *host, struct dlk_op *op,
                       const struct dlk_error *err);
/* The store was stopped and will not end this op any more. */
void dlk_dispatch_forget(struct dlk_ticket *t);
/* The hold is to be released, and is held. True: it was handed over instead,
 * and is released. */
bool dlk_dispatch_pass(struct dlk_hold *h);

/* What leases ask of requests. */
extern const struct dlk_lease_calls dlk_dispatch_lease_calls;

#endif
