/* Each step ends the op, or leaves it waiting. */
#ifndef DLK_STORE_FILE_RECIPE_WAIT_H
#define DLK_STORE_FILE_RECIPE_WAIT_H

#include "store/file/recipe/op.h"

void dlk_file_acquire(struct dlk_file_op *f);
void dlk_file_change(struct dlk_file_op *f);
void dlk_file_leave(struct dlk_file_op *f);

#endif
