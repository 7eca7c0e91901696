/* What is the process's and not a store's. */
#ifndef DLK_STORE_FILE_DIR_PROCESS_H
#define DLK_STORE_FILE_DIR_PROCESS_H

#include <sys/types.h>

/* descriptors.c: descriptors that a forked child must not keep. */
int dlk_file_fd_open(int dir, const char *name, int flags,
                     mode_t mode); /* fd, -errno */
void dlk_file_fd_close(int fd);    /* -1 is fine */

/* temporary.c. Adds a user: the path, to be freed, or NULL. It need not exist.
 */
char *dlk_file_temporary_enter(void);
/* The last user removes it. */
void dlk_file_temporary_leave(void);

#endif
