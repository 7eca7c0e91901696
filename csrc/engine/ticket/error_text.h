/* What a ticket's error says: see error_text.c. */
#ifndef DLK_ENGINE_TICKET_ERROR_TEXT_H
#define DLK_ENGINE_TICKET_ERROR_TEXT_H

#include "engine/ticket/ticket.h"

/* By the loop's owner. */
void dlk_ticket_keep_error(struct dlk_ticket *t, const struct dlk_error *err);

#endif
