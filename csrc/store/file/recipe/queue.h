/* The queue: all with the key's mutex, on d->table. */
#ifndef DLK_STORE_FILE_RECIPE_QUEUE_H
#define DLK_STORE_FILE_RECIPE_QUEUE_H

#include "store/file/dir/key.h"

bool dlk_file_fits(struct dlk_file_table *t, struct dlk_want want);
/* Whether the waiter `before` it (0: the last holder), if it is alive, shares
 * under another limit. */
bool dlk_file_other_limit(struct dlk_file_dir *d, struct dlk_want want,
                          uint32_t before);
/* Whether our entry is in the table. */
bool dlk_file_stands(struct dlk_file_dir *d, const struct dlk_file_entry *e);
/* Who stands at the head: the first holder, else the first waiter; 0: nobody
 * does. */
uint32_t dlk_file_first(const struct dlk_file_table *t);
/* Whether who stands there does: its store lives and, if that is ours, an
 * entry claims it. */
bool dlk_file_stays(struct dlk_file_dir *d, const struct dlk_file_slot *slot);
/* A dead or expired hold. */
bool dlk_file_vacant(struct dlk_file_dir *d, const struct dlk_file_slot *h,
                     int64_t now);
/* Neither that nor a dead waiter. */
bool dlk_file_counts(struct dlk_file_dir *d, const struct dlk_file_slot *slot,
                     int64_t now);
/* The first in the list that counts; 0: none does. */
uint32_t dlk_file_first_in(struct dlk_file_dir *d, enum dlk_file_list list);
/* A new slot for the lease (or for a watcher, lease NULL) in the list. */
int dlk_file_join(struct dlk_file_dir *d, struct dlk_file_entry *e,
                  const struct dlk_lease *lease, enum dlk_file_list list);
/* Drops holders that are dead; then grants. Not where nothing can be written.
 */
void dlk_file_settle(struct dlk_file_dir *d);
void dlk_file_grant(struct dlk_file_dir *d);
/* Ends a hold, or shortens it to its min_hold, which one that is unused does
 * not have; then grants. */
void dlk_file_let_go(struct dlk_file_dir *d, uint32_t index, bool unused);
/* Takes a waiter or watcher out; then grants. */
void dlk_file_withdraw(struct dlk_file_dir *d, uint32_t index);
/* Wakes those who wait for a change, if there was one. */
void dlk_file_tell(struct dlk_file_dir *d);

#endif
