#ifndef DLK_STORE_FILE_RECIPE_ADMIN_H
#define DLK_STORE_FILE_RECIPE_ADMIN_H

#include "store/file/recipe/op.h"

void dlk_file_ping(struct dlk_file_op *f);
void dlk_file_locked(struct dlk_file_op *f);
void dlk_file_inspect(struct dlk_file_op *f);
void dlk_file_list(struct dlk_file_op *f);
void dlk_file_break(struct dlk_file_op *f);
void dlk_file_revoke(struct dlk_file_op *f);
void dlk_file_downgrade(struct dlk_file_op *f);

#endif
