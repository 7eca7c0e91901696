/* What nobody uses any more. */
#ifndef DLK_STORE_FILE_DIR_IDLE_H
#define DLK_STORE_FILE_DIR_IDLE_H

#include "store/file/dir/dir.h"
#include "store/file/format/name.h"

/* Whether the loaded table is another boot id's, in which nothing counts. May
 * set the table's error, and is false then. */
bool dlk_file_key_remnant(struct dlk_file_dir *d);
/* Whether the file says that it is the key's that has this name. */
bool dlk_file_key_said(const char *name, int fd);
/* With the file's mutex: deletes it if nothing counts in it. */
void dlk_file_key_delete_idle(struct dlk_file_dir *d, const char *name, int fd);

#endif
