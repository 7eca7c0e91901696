/* What nobody uses any more. */
#ifndef DLK_STORE_FILE_DIR_IDLE_H
#define DLK_STORE_FILE_DIR_IDLE_H

#include "store/file/dir/dir.h"
#include "store/file/format/name.h"

/* What counts in a table of which nobody lives: the hold of nobody (until 0:
 * none), and that some of it cannot be read. */
struct dlk_file_rest {
  struct dlk_file_slot hold;
  bool damaged;
};

/* One more hold of nobody. */
void dlk_file_rest_add(struct dlk_file_rest *r,
                       const struct dlk_file_slot *slot);
/* Whether the loaded table is another boot id's, of which nobody lives; and
 * what counts in it. */
bool dlk_file_left(struct dlk_file_dir *d, struct dlk_file_rest *r);
/* Whether that is so and nothing in it counts. May set the table's error. */
bool dlk_file_key_remnant(struct dlk_file_dir *d);

/* With the file's mutex: whether it may be deleted. */
enum dlk_file_use {
  DLK_FILE_USED,          /* no, or it is no key's file */
  DLK_FILE_UNLESS_OTHERS, /* if no other store lives in the directory */
  DLK_FILE_IDLE
};
enum dlk_file_use dlk_file_key_use(struct dlk_file_dir *d, const char *name,
                                   int fd);
/* Whether the file says that it is the key's that has this name. */
bool dlk_file_key_said(const char *name, int fd);
/* With its mutex since that was found out. */
void dlk_file_key_delete(struct dlk_file_dir *d, const char *name, int fd);
/* Both; it may read the directory. */
void dlk_file_key_delete_idle(struct dlk_file_dir *d, const char *name, int fd);

#endif
