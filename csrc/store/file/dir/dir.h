/* The lock directory.
 *
 * Functions that return int answer 0 or an errno; EAGAIN means that another
 * process has the short mutex: try again in a moment. */
#ifndef DLK_STORE_FILE_DIR_DIR_H
#define DLK_STORE_FILE_DIR_DIR_H

#include <dirent.h>
#include <sys/types.h>
#include <uv.h>

#include "core/list.h"
#include "core/map.h"
#include "store/file/format/table.h"
#include "store/store.h"

#define DLK_FILE_SCAN 10000 /* holders looked at in one go */

/* The modes of our files: made, but not written to; in use. */
#define DLK_FILE_NEW 01700
#define DLK_FILE_MADE 01600

/* The last fence that is given to a holder: behind it is room for the
 * guards of key.c. */
#define DLK_FILE_FENCES (DLK_FENCE_END - 1000000)

#define DLK_FILE_ALL 0 /* instead of a token: look at all of yours */

struct dlk_file_dir;

/* Which file a descriptor is open on. No other file is it while it is open. */
struct dlk_file_node {
  dev_t dev;
  ino_t ino;
};

/* What is told to who uses the directory. */
struct dlk_file_dir_user {
  /* Somebody wants us to look at the slot of that token. */
  void (*look)(struct dlk_file_dir *d, uint64_t token);
  /* Whether a hold of ours is one of this key. */
  bool (*holds)(struct dlk_file_dir *d, const char *key, size_t len);
  /* Whether an entry of ours claims the slot of that token. */
  bool (*claims)(struct dlk_file_dir *d, uint64_t token);
  /* The directory is let go. */
  void (*disconnected)(struct dlk_file_dir *d);
};

struct dlk_file_dir {
  struct dlk_host *host;
  const struct dlk_file_dir_user *user;
  char *path, *prefix; /* temporary: the path is that of temporary.c */
  bool temporary;
  size_t prefix_len;
  /* dir.c */
  int fd;      /* -1 until connected */
  uid_t owner; /* whose the directory is: ours */
  bool read_only;
  uint8_t boot[16];
  /* meta.c */
  int meta; /* "~store"; -1 until connected */
  struct dlk_file_node meta_node;
  bool meta_good;  /* its magic was seen */
  int64_t ttl;     /* that and shorter ones are known to it */
  int64_t longest; /* ttl that we ever saw in one here */
  /* liveness.c */
  int wake; /* our pipe; -1 until connected */
  char *wake_path;
  struct dlk_file_node wake_node;
  uint64_t instance; /* names this store's pipe, marks its slots */
  uv_poll_t *wake_poll;
  size_t handles; /* libuv handles not closed yet */
  bool stopping;
  struct dlk_map peers; /* by instance */
  struct dlk_list idle; /* peers nobody watches */
  size_t idle_count;
  /* key.c */
  struct dlk_map keys; /* open key files, by full key */
  struct dlk_list recent;
  size_t key_count, created;
  struct dlk_file_table table; /* of the key that was entered last */
  bool holders_changed;        /* since the mutex was taken */
};

/* Nothing is opened yet. False: out of memory, nothing is to be freed. */
bool dlk_file_dir_init(struct dlk_file_dir *d, struct dlk_host *host,
                       const struct dlk_conf *conf, uint32_t seed);
void dlk_file_dir_free(struct dlk_file_dir *d);

enum dlk_code dlk_file_dir_open(struct dlk_file_dir *d, struct dlk_error *err);
/* Whether the store's path leads to another directory than ours, or none. */
bool dlk_file_dir_lost(const struct dlk_file_dir *d);
/* What is in the directory; NULL and errno. It has a descriptor of its own,
 * not registered for fork, because it keeps nothing alive. */
DIR *dlk_file_dir_list(const struct dlk_file_dir *d);
/* Opens a plain file of ours, for reading and writing; mode: that of a file to
 * be made if there is none, 0: none is made; alone: it must have no other name.
 * fd, or -errno; EPROTO: what is there is no such file. It was not opened. */
int dlk_file_own_open(struct dlk_file_dir *d, const char *name, mode_t mode,
                      bool alone);
/* Of an open file: 0, or an errno. */
int dlk_file_node_of(int fd, struct dlk_file_node *out);
/* Whether the descriptor is open on that file yet. */
bool dlk_file_is_open(int fd, const struct dlk_file_node *node);
/* Whether a name in the directory leads to an open file: what has no name, or
 * another one, is found by nobody else. mode: its mode then; may be NULL. */
bool dlk_file_named(const struct dlk_file_dir *d, const char *name, int fd,
                    const struct dlk_file_node *node, mode_t *mode);
/* Of a file with nothing in it: whether it can be one of ours. */
bool dlk_file_marked(mode_t mode);

/* The short mutex of a file: tried for some microseconds, or once. */
int dlk_file_lock(int fd);
int dlk_file_try_lock(int fd);
void dlk_file_unlock(int fd);

#endif
