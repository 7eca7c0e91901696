/* What is done about a table that something else has written into. */
#ifndef DLK_STORE_FILE_DIR_DAMAGE_H
#define DLK_STORE_FILE_DIR_DAMAGE_H

#include "store/file/dir/dir.h"

/* In a table that was begun anew: a hold of nobody (in memory), if somebody who
 * lives may have stood in the old one. All are told to look. */
int dlk_file_guard(struct dlk_file_dir *d, const char *key, size_t len);

#endif
