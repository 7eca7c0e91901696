/* Pipes: each store reads one, and others see by it whether it lives. */
#ifndef DLK_STORE_FILE_DIR_LIVENESS_H
#define DLK_STORE_FILE_DIR_LIVENESS_H

#include "store/file/dir/dir.h"

/* Is told when a store that it watches dies. */
struct dlk_file_watcher {
  struct dlk_list watches;
  void (*died)(struct dlk_file_watcher *w);
};

/* Needs the meta mutex. */
int dlk_file_wake_open(struct dlk_file_dir *d);
/* Whether its name no longer leads to it. */
bool dlk_file_wake_lost(const struct dlk_file_dir *d);
void dlk_file_wake_close(struct dlk_file_dir *d);

/* True also when it cannot be told. */
bool dlk_file_peer_alive(struct dlk_file_dir *d, uint64_t instance);
/* Has the store look at the token's slot; false: it is dead. */
bool dlk_file_peer_wake(struct dlk_file_dir *d, uint64_t instance,
                        uint64_t token);
/* Whether another store lives, or it cannot be told. */
bool dlk_file_peers_alive(struct dlk_file_dir *d);
/* Has all stores, ours too, look at all of their slots. */
void dlk_file_peers_wake(struct dlk_file_dir *d);
/* ESRCH: the store is dead already. */
int dlk_file_peer_watch(struct dlk_file_dir *d, struct dlk_file_watcher *w,
                        uint64_t instance);
void dlk_file_peer_unwatch(struct dlk_file_dir *d, struct dlk_file_watcher *w);
void dlk_file_peers_close(struct dlk_file_dir *d);
/* Deletes a dead store's pipe; other files stay. */
void dlk_file_peer_bury(struct dlk_file_dir *d, const char *name);

#endif
