/* The directory of memory://. See temporary.c. */
#ifndef DLK_STORE_FILE_DIR_TEMPORARY_H
#define DLK_STORE_FILE_DIR_TEMPORARY_H

/* One more store of this process uses the directory: its path, to be freed, or
 * NULL. The directory need not be there. */
char *dlk_file_temporary_enter(void);
/* One less; the last one removes it. */
void dlk_file_temporary_leave(void);

#endif
