/* "~store", the directory's own file: see meta.c. Functions that return int
 * answer as those of dir.h. */
#ifndef DLK_STORE_FILE_DIR_META_H
#define DLK_STORE_FILE_DIR_META_H

#include "store/file/dir/dir.h"

/* Opens it if need be, and takes its mutex: tried for some microseconds, or
 * once. */
int dlk_file_meta_lock(struct dlk_file_dir *d);
int dlk_file_meta_try_lock(struct dlk_file_dir *d);
void dlk_file_meta_close(struct dlk_file_dir *d);
/* No fence up to this one may be given for a new file. */
int dlk_file_fence_floor(struct dlk_file_dir *d, int64_t *floor);
/* With the meta mutex: raises the floor. */
int dlk_file_fence_keep(struct dlk_file_dir *d, int64_t fence);
/* Before a lease of that ttl is granted: "~store" knows the longest. */
int dlk_file_ttl_keep(struct dlk_file_dir *d, int64_t ttl);
int dlk_file_ttl_longest(struct dlk_file_dir *d, int64_t *ttl);
/* With the meta mutex: whether it is our turn to sweep, and from where. */
bool dlk_file_sweep_due(struct dlk_file_dir *d, int64_t *from);
/* With the meta mutex: where the next one goes on; 0: all is done. */
void dlk_file_sweep_keep(struct dlk_file_dir *d, int64_t at);

#endif
