/* The engine's side of a ticket: see request.c. By the loop's owner, but for
 * dlk_request_new. */
#ifndef DLK_ENGINE_REQUEST_H
#define DLK_ENGINE_REQUEST_H

#include "engine/ticket.h"

/* A ticket that is ready to be started by its post `start`. */
struct dlk_ticket *dlk_request_new(struct dlk_engine *e,
                                   const struct dlk_request *r);
/* Gives it a place behind others in the local queue of its key, which needs
 * neither the store nor libuv; false: there is none, and nothing was done. */
bool dlk_request_queue_up(struct dlk_ticket *t);
/* Hands it to the store. */
void dlk_request_submit(struct dlk_ticket *t);
/* An acquire was granted: by the store, or by a hand-over. */
void dlk_request_granted(struct dlk_ticket *t, int64_t now);
/* Ends it early; the op is cancelled if the store has it. */
void dlk_request_end(struct dlk_ticket *t, enum dlk_code code);
void dlk_request_finish(struct dlk_ticket *t, const struct dlk_error *err);
void dlk_request_finish_code(struct dlk_ticket *t, enum dlk_code code);
/* The store was stopped and will not end this op any more. */
void dlk_request_forget(struct dlk_ticket *t);
/* As struct dlk_host, done. */
void dlk_request_op_done(struct dlk_host *host, struct dlk_op *op,
                         const struct dlk_error *err);

/* What leases ask of requests. */
extern const struct dlk_lease_calls dlk_request_lease_calls;

#endif
