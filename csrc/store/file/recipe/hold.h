#ifndef DLK_STORE_FILE_RECIPE_HOLD_H
#define DLK_STORE_FILE_RECIPE_HOLD_H

#include "store/file/recipe/op.h"

void dlk_file_release(struct dlk_file_op *f);
void dlk_file_extend(struct dlk_file_op *f);
void dlk_file_renew(void *store, struct dlk_lease *const *leases, size_t count);

#endif
