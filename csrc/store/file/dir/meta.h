/* "~store". Functions that return int answer as in dir.h. */
#ifndef DLK_STORE_FILE_DIR_META_H
#define DLK_STORE_FILE_DIR_META_H

#include "store/file/dir/dir.h"

int dlk_file_meta_lock(struct dlk_file_dir *d);
int dlk_file_meta_try_lock(struct dlk_file_dir *d);
void dlk_file_meta_close(struct dlk_file_dir *d);
/* Before a store begins; needs the mutex. EXDEV: `others` live here, and see
 * another boot id. */
int dlk_file_boot_keep(struct dlk_file_dir *d,
                       bool (*others)(struct dlk_file_dir *d));
/* A new file's fences begin above the floor. */
int dlk_file_fence_floor(struct dlk_file_dir *d, int64_t *floor);
/* Raises the floor; needs the mutex. */
int dlk_file_fence_keep(struct dlk_file_dir *d, int64_t fence);
/* Precedes the grant of a lease with that ttl. */
int dlk_file_ttl_keep(struct dlk_file_dir *d, int64_t ttl);
int dlk_file_ttl_longest(struct dlk_file_dir *d, int64_t *ttl);
/* Whether a sweep is due, and from where; needs the mutex. */
bool dlk_file_sweep_due(struct dlk_file_dir *d, int64_t *from);
/* Where the next sweep begins; needs the mutex. */
void dlk_file_sweep_keep(struct dlk_file_dir *d, int64_t at);

#endif
