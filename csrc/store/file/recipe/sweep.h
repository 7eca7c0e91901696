/* Deletes what killed processes left. */
#ifndef DLK_STORE_FILE_RECIPE_SWEEP_H
#define DLK_STORE_FILE_RECIPE_SWEEP_H

#include "store/file/recipe/store.h"

/* from: of dlk_file_sweep_due. */
void dlk_file_sweep_start(struct dlk_file_store *s, int64_t from);
void dlk_file_sweep_stop(struct dlk_file_store *s);

#endif
