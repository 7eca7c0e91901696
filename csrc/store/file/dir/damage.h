/* What is done about a table that something else has written into. */
#ifndef DLK_STORE_FILE_DIR_DAMAGE_H
#define DLK_STORE_FILE_DIR_DAMAGE_H

#include "store/file/dir/dir.h"

/* The hold of nobody that protects those who may be in a damaged table, whom it
 * tells to look; until 0: there is nobody. */
int dlk_file_guard_make(struct dlk_file_dir *d, const char *key, size_t len,
                        struct dlk_file_slot *out);
/* In a table that does not say who is in it: a hold of nobody (in memory), if
 * somebody who lives may be. */
int dlk_file_guard_living(struct dlk_file_dir *d, const char *key, size_t len);

#endif
