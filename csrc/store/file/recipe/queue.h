/* All with the key's mutex, on d->table. */
#ifndef DLK_STORE_FILE_RECIPE_QUEUE_H
#define DLK_STORE_FILE_RECIPE_QUEUE_H

#include "store/file/dir/key.h"

bool dlk_file_fits(struct dlk_file_table *t, struct dlk_want want);
/* Whether the waiter `before` (0: the last holder) lives and shares under
 * another limit. */
bool dlk_file_other_limit(struct dlk_file_dir *d, struct dlk_want want,
                          uint32_t before);
bool dlk_file_stands(struct dlk_file_dir *d, const struct dlk_file_entry *e);
/* Whether the slot's store lives and, in our own, an entry claims it. */
bool dlk_file_stays(struct dlk_file_dir *d, const struct dlk_file_slot *slot);
/* Whether the slot stays, or is a hold whose min_hold is not over. */
bool dlk_file_counts(struct dlk_file_dir *d, const struct dlk_file_slot *slot,
                     int64_t now);
/* The first in the list that counts, or 0. */
uint32_t dlk_file_first_in(struct dlk_file_dir *d, enum dlk_file_list list);
/* Adds a slot for the lease; NULL: for a watcher. */
int dlk_file_join(struct dlk_file_dir *d, struct dlk_file_entry *e,
                  const struct dlk_lease *lease, enum dlk_file_list list);
/* Drops dead holders, then grants. Does nothing in a read-only directory. */
void dlk_file_settle(struct dlk_file_dir *d);
void dlk_file_grant(struct dlk_file_dir *d);
/* Ends a hold, or cuts it to its min_hold unless unused; then grants. */
void dlk_file_let_go(struct dlk_file_dir *d, uint32_t index, bool unused);
/* Removes a waiter or watcher, then grants. */
void dlk_file_withdraw(struct dlk_file_dir *d, uint32_t index);
/* Wakes the watchers if the holders changed. */
void dlk_file_tell(struct dlk_file_dir *d);

#endif
