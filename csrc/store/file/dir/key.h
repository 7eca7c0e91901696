/* Key files. */
#ifndef DLK_STORE_FILE_DIR_KEY_H
#define DLK_STORE_FILE_DIR_KEY_H

#include <string.h>
#include <sys/stat.h>

#include "store/file/dir/dir.h"
#include "store/file/format/name.h"

struct dlk_file_key {
  struct dlk_map_node node;
  struct dlk_list link;
  int fd;
  bool checked; /* the key in the file is this one */
  struct stat file;
  uint64_t seen; /* K5 */
  char name[DLK_FILE_NAME];
  size_t len;
  char key[]; /* with the prefix */
};

/* A lease's (in lease->data) or a watcher's (in its op). */
struct dlk_file_entry {
  struct dlk_map_node node;
  uint64_t instance, token;
  uint32_t slot;
  bool told; /* of the revoke */
  struct dlk_lease *lease;
  struct dlk_op *op; /* while it waits or releases */
};

static inline bool dlk_file_ours(const struct dlk_file_entry *e,
                                 const struct dlk_file_slot *slot) {
  return slot->list != DLK_FILE_FREE && slot->token == e->token &&
         slot->instance == e->instance && e->instance != 0;
}

/* Locks, and loads into d->table. ENOENT: there is no file (create false).
 * EEXIST: it is another key's. EPROTO: it is not ours. */
int dlk_file_key_enter(struct dlk_file_dir *d, const char *key, size_t len,
                       bool create, struct dlk_file_key **out);
/* The same for our entry. ENOENT: it cannot be in a table any more. */
int dlk_file_key_enter_own(struct dlk_file_dir *d, const char *key, size_t len,
                           const struct dlk_file_entry *e,
                           struct dlk_file_key **out);
/* Commits and unlocks. */
int dlk_file_key_leave(struct dlk_file_dir *d, struct dlk_file_key *k);
/* Reads our slot without the mutex. ENOENT: not ours any more. EAGAIN:
 * unclear. */
int dlk_file_key_peek(struct dlk_file_dir *d, const char *key, size_t len,
                      struct dlk_file_entry *e, struct dlk_file_slot *out);
/* Whether that answer of key_enter excludes our entry. */
bool dlk_file_key_gone(int error);

/* False: the key is too long with its prefix. */
bool dlk_file_key_name(const struct dlk_file_dir *d, const char *key,
                       size_t len, char out[DLK_FILE_NAME]);
/* fd, or -errno. */
int dlk_file_key_open(struct dlk_file_dir *d, const char *name, bool create);

/* Whether the loaded table is of before a restart: its times mean nothing, and
 * a part of it may have missed the disk. dlk_file_boot_keep lets no store of
 * another boot id live beside ours. */
static inline bool dlk_file_remnant(const struct dlk_file_dir *d) {
  return memcmp(d->table.head.boot, d->boot, sizeof d->boot) != 0;
}
/* Whether the key in the file has this name. */
bool dlk_file_key_said(const char *name, int fd);
/* Deletes the file if it is idle; needs its mutex. */
void dlk_file_key_delete_idle(struct dlk_file_dir *d, const char *name, int fd);

/* Closes all descriptors and deletes idle files. */
void dlk_file_disconnect(struct dlk_file_dir *d);

#endif
