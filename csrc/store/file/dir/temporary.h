#ifndef DLK_STORE_FILE_DIR_TEMPORARY_H
#define DLK_STORE_FILE_DIR_TEMPORARY_H

/* Adds a user: the path, to be freed, or NULL. It need not exist. */
char *dlk_file_temporary_enter(void);
/* The last user removes it. */
void dlk_file_temporary_leave(void);

#endif
