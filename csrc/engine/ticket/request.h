/* A request on its way: see request.c. By the loop's owner, but for
 * dlk_request_new. */
#ifndef DLK_ENGINE_TICKET_REQUEST_H
#define DLK_ENGINE_TICKET_REQUEST_H

#include "engine/ticket/ticket.h"

/* A ticket that ends by its time and by its cancel; how it starts is its
 * maker's. */
struct dlk_ticket *dlk_request_new(struct dlk_engine *e,
                                   const struct dlk_request *r);
/* Hands it to the store. */
void dlk_request_submit(struct dlk_ticket *t);
/* The store is done with it. */
void dlk_request_returned(struct dlk_ticket *t);
/* Ends it early; the op is cancelled if the store has it. */
void dlk_request_end(struct dlk_ticket *t, enum dlk_code code);
void dlk_request_finish(struct dlk_ticket *t, const struct dlk_error *err);
void dlk_request_finish_code(struct dlk_ticket *t, enum dlk_code code);

/* What the local queue asks of requests. */
extern const struct dlk_local_calls dlk_request_local_calls;

#endif
