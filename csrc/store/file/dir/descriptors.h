#ifndef DLK_STORE_FILE_DIR_DESCRIPTORS_H
#define DLK_STORE_FILE_DIR_DESCRIPTORS_H

#include <sys/types.h>

int dlk_file_fd_open(int dir, const char *name, int flags,
                     mode_t mode); /* fd, -errno */
void dlk_file_fd_close(int fd);    /* -1 is fine */

#endif
