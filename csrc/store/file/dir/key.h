/* Key files. */
#ifndef DLK_STORE_FILE_DIR_KEY_H
#define DLK_STORE_FILE_DIR_KEY_H

#include "store/file/dir/dir.h"
#include "store/file/format/name.h"

/* A key's file, open. */
struct dlk_file_key {
  struct dlk_map_node node;
  struct dlk_list link;
  int fd;
  struct dlk_file_node file;
  bool checked; /* the file says that it is this key's */
  mode_t mode;
  char name[DLK_FILE_NAME];
  size_t len;
  char key[]; /* with the prefix */
};

/* A slot of ours: a lease's (in lease->data) or a watcher's (in its op). */
struct dlk_file_entry {
  struct dlk_map_node node;
  uint64_t instance, token;
  uint32_t slot;
  bool told; /* that somebody asked for the lease */
  struct dlk_lease *lease;
  struct dlk_op *op; /* while it waits */
};

static inline bool dlk_file_ours(const struct dlk_file_entry *e,
                                 const struct dlk_file_slot *slot) {
  return slot->list != DLK_FILE_FREE && slot->token == e->token &&
         slot->instance == e->instance && e->instance != 0;
}

/* Takes the key's mutex and loads its table into d->table. ENOENT: there is
 * no file (create false). EEXIST: it is another key's. EPROTO: it is not one
 * of ours. */
int dlk_file_key_enter(struct dlk_file_dir *d, const char *key, size_t len,
                       bool create, struct dlk_file_key **out);
/* The same for an entry of ours. ENOENT: it cannot stand there any more, since
 * the file is gone, or is none of ours. */
int dlk_file_key_enter_own(struct dlk_file_dir *d, const char *key, size_t len,
                           const struct dlk_file_entry *e,
                           struct dlk_file_key **out);
/* Commits and lets the mutex go. */
int dlk_file_key_leave(struct dlk_file_dir *d, struct dlk_file_key *k);
/* Our slot as it is now, without the mutex. ENOENT: not ours any more;
 * EAGAIN: could not be told. */
int dlk_file_key_peek(struct dlk_file_dir *d, const char *key, size_t len,
                      struct dlk_file_entry *e, struct dlk_file_slot *out);
/* For an answer of key_enter: whether no entry of ours can stand there. */
bool dlk_file_key_gone(int error);

/* The name of a key's file; false: the key is too long with its prefix. */
bool dlk_file_key_name(const struct dlk_file_dir *d, const char *key,
                       size_t len, char out[DLK_FILE_NAME]);
/* Opens a key's file: fd, or -errno. */
int dlk_file_key_open(struct dlk_file_dir *d, const char *name, bool create);

/* Whether the loaded table is another boot id's, in which nobody counts. May
 * set the table's error, and is false then. */
bool dlk_file_key_remnant(struct dlk_file_dir *d);
/* Whether the file says that it is the key's that has this name. */
bool dlk_file_key_said(const char *name, int fd);
/* With the file's mutex: deletes it if nobody counts in it. */
void dlk_file_key_delete_idle(struct dlk_file_dir *d, const char *name, int fd);

/* Lets go of all descriptors, and deletes files in which nothing is: the store
 * closes, or the directory was deleted. */
void dlk_file_disconnect(struct dlk_file_dir *d);

#endif
