/* The steps of operations: each ends the op, or leaves it waiting. */
#ifndef DLK_STORE_FILE_RECIPE_STEPS_H
#define DLK_STORE_FILE_RECIPE_STEPS_H

#include "store/file/recipe/op.h"

void dlk_file_acquire(struct dlk_file_op *f);
void dlk_file_change(struct dlk_file_op *f);
void dlk_file_leave(struct dlk_file_op *f);
void dlk_file_release(struct dlk_file_op *f);
void dlk_file_extend(struct dlk_file_op *f);
void dlk_file_ping(struct dlk_file_op *f);
void dlk_file_locked(struct dlk_file_op *f);
void dlk_file_inspect(struct dlk_file_op *f);
void dlk_file_list(struct dlk_file_op *f);
void dlk_file_break(struct dlk_file_op *f);
void dlk_file_revoke(struct dlk_file_op *f);
void dlk_file_downgrade(struct dlk_file_op *f);
void dlk_file_publish(struct dlk_file_op *f);
void dlk_file_renew(void *store, struct dlk_lease *const *leases, size_t count);

#endif
