/* Who is told that a ticket is done: see watch.c. */
#ifndef DLK_ENGINE_TICKET_WATCH_H
#define DLK_ENGINE_TICKET_WATCH_H

#include "engine/ticket/ticket.h"

/* By the loop's owner: t is done, so whoever waits for it is told. */
void dlk_ticket_tell(struct dlk_ticket *t);
/* The listener is woken, or by *others, as dlk_ticket_watch. */
void dlk_engine_take_others(struct dlk_engine *e, bool *others);
/* Nobody will ask for what is ready. */
void dlk_engine_drop_ready(struct dlk_engine *e);

#endif
