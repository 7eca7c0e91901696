/* The pipes by which stores wake each other and see each other die. */
#ifndef DLK_STORE_FILE_DIR_LIVENESS_H
#define DLK_STORE_FILE_DIR_LIVENESS_H

#include "store/file/dir/dir.h"

/* Who must be told when one of some stores dies. */
struct dlk_file_watcher {
  struct dlk_list watches;
  void (*died)(struct dlk_file_watcher *w);
};

/* Makes this store's pipe; wants the meta mutex. */
int dlk_file_wake_open(struct dlk_file_dir *d);
/* Its name does not lead to it any more: it was deleted, or the directory was
 * or has another name. */
bool dlk_file_wake_lost(const struct dlk_file_dir *d);
void dlk_file_wake_close(struct dlk_file_dir *d);

/* Whether the store of that instance lives; true when it cannot be told. */
bool dlk_file_peer_alive(struct dlk_file_dir *d, uint64_t instance);
/* Tells it to look at its slot; false when it is dead. */
bool dlk_file_peer_wake(struct dlk_file_dir *d, uint64_t instance,
                        uint64_t token);
/* Whether any other store lives, or nobody can tell. */
bool dlk_file_peers_alive(struct dlk_file_dir *d);
/* Tells all of them to look at all of their slots. */
void dlk_file_peers_wake(struct dlk_file_dir *d);
/* Tells w when the store dies. ESRCH: it is dead. */
int dlk_file_peer_watch(struct dlk_file_dir *d, struct dlk_file_watcher *w,
                        uint64_t instance);
void dlk_file_peer_unwatch(struct dlk_file_dir *d, struct dlk_file_watcher *w);
void dlk_file_peers_close(struct dlk_file_dir *d);
/* Deletes the pipe of a dead store, if that is what has this name. */
void dlk_file_peer_bury(struct dlk_file_dir *d, const char *name);

#endif
