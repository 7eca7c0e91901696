/* Slots of ours that nobody claims and that may be in a table yet. */
#ifndef DLK_STORE_FILE_RECIPE_ORPHAN_H
#define DLK_STORE_FILE_RECIPE_ORPHAN_H

#include "store/file/recipe/entry.h"

/* Takes out what it can. Not with a mutex. */
void dlk_file_orphans_try(struct dlk_file_store *s);
void dlk_file_orphans_free(struct dlk_file_store *s);

#endif
