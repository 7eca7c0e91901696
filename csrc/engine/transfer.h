/* Detached holds of this process, and those that another store attached: see
 * transfer.c. */
#ifndef DLK_ENGINE_TRANSFER_H
#define DLK_ENGINE_TRANSFER_H

#include "engine/lease.h"

struct dlk_transfers {
  struct dlk_list adopted; /* holds of other engines; under a lock of all */
};

/* False: out of memory. */
bool dlk_transfers_init(struct dlk_transfers *tr);

/* All by the owner of the hold's loop. */
struct dlk_value *dlk_transfer_put(struct dlk_hold *h); /* the text */
/* The hold is that store's lease from now on. False: that one is closing, and
 * may not end it any more. */
bool dlk_transfer_adopt(struct dlk_hold *h, struct dlk_engine *by);
/* The hold ended. */
void dlk_transfer_end(struct dlk_hold *h);
/* By the owner of e's loop: those that e adopted are released in the
 * background. */
void dlk_transfer_release_adopted(struct dlk_engine *e);

#endif
