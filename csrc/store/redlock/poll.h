/* Operations that ask all nodes once: see poll.c. */
#ifndef DLK_STORE_REDLOCK_POLL_H
#define DLK_STORE_REDLOCK_POLL_H

#include "store/redlock/node.h"

void dlk_redlock_poll(struct dlk_redlock *s, struct dlk_op *op);
void dlk_redlock_poll_cancel(struct dlk_op *op);
void dlk_redlock_polls_stop(struct dlk_redlock *s);
void dlk_redlock_polls_free(struct dlk_redlock *s);

#endif
