/* See request.c. For the loop's owner, except dlk_request_new. */
#ifndef DLK_ENGINE_TICKET_REQUEST_H
#define DLK_ENGINE_TICKET_REQUEST_H

#include "engine/ticket/ticket.h"

/* A ticket ready to be started by its post. */
struct dlk_ticket *dlk_request_new(struct dlk_engine *e,
                                   const struct dlk_request *r);
/* Gives t a place in an existing local queue, without store and libuv. False:
 * there is none. */
bool dlk_request_queue_up(struct dlk_ticket *t);
/* As struct dlk_host, done. */
void dlk_request_done(struct dlk_host *host, struct dlk_op *op,
                      const struct dlk_error *err);
/* The store has stopped without its end. */
void dlk_request_forget(struct dlk_ticket *t);
/* Ends it early, by a cancel if the store has it. */
void dlk_request_end(struct dlk_ticket *t, enum dlk_code code);
void dlk_request_finish(struct dlk_ticket *t, const struct dlk_error *err);
void dlk_request_finish_code(struct dlk_ticket *t, enum dlk_code code);
/* Hands a held hold over instead of a release. False: it cannot. */
bool dlk_request_pass(struct dlk_hold *h);

extern const struct dlk_request_calls dlk_request_calls;

#endif
