/* See request.c. For the loop's owner, except dlk_request_new. */
#ifndef DLK_ENGINE_TICKET_REQUEST_H
#define DLK_ENGINE_TICKET_REQUEST_H

#include "engine/ticket/ticket.h"

/* A ticket that ends by time and by cancel. The caller sets its start. */
struct dlk_ticket *dlk_request_new(struct dlk_engine *e,
                                   const struct dlk_request *r);
void dlk_request_submit(struct dlk_ticket *t);
void dlk_request_returned(struct dlk_ticket *t);
/* Ends it early, by a cancel if the store has it. */
void dlk_request_end(struct dlk_ticket *t, enum dlk_code code);
void dlk_request_finish(struct dlk_ticket *t, const struct dlk_error *err);
void dlk_request_finish_code(struct dlk_ticket *t, enum dlk_code code);

extern const struct dlk_local_calls dlk_request_local_calls;

#endif
