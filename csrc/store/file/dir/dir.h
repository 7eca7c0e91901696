/* The lock directory. Functions that return int answer 0 or an errno; EAGAIN:
 * another process has the short mutex for a moment. */
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

/* Modes of our files: before and after the first commit. */
#define DLK_FILE_NEW 01700
#define DLK_FILE_MADE 01600

/* The last fence of a holder; the guards of key.c go above it. */
#define DLK_FILE_FENCES (DLK_FENCE_END - 1000000)

#define DLK_FILE_ALL 0 /* a token for all slots */

struct dlk_file_dir;

/* Names a file while a descriptor is open on it. */
struct dlk_file_node {
  dev_t dev;
  ino_t ino;
};

/* The calls of the recipe. */
struct dlk_file_dir_user {
  /* A store asks us to look at the token's slot. */
  void (*look)(struct dlk_file_dir *d, uint64_t token);
  /* Whether we hold the key. */
  bool (*holds)(struct dlk_file_dir *d, const char *key, size_t len);
  /* Whether an entry of ours has the token. */
  bool (*claims)(struct dlk_file_dir *d, uint64_t token);
  void (*disconnected)(struct dlk_file_dir *d);
};

struct dlk_file_dir {
  struct dlk_host *host;
  const struct dlk_file_dir_user *user;
  char *path, *prefix; /* temporary: path of temporary.c */
  bool temporary;
  size_t prefix_len;
  /* dir.c */
  int fd; /* -1 until connected */
  uid_t owner;
  bool read_only;
  uint8_t boot[16];
  /* meta.c */
  int meta; /* "~store"; -1 until connected */
  struct dlk_file_node meta_node;
  bool meta_good;  /* its magic was seen */
  int64_t ttl;     /* "~store" has at least this one */
  int64_t longest; /* ttl in any "~store" that we saw here */
  /* liveness.c */
  int wake; /* our pipe; -1 until connected */
  char *wake_path;
  struct dlk_file_node wake_node;
  uint64_t instance; /* of the pipe and our slots */
  uv_poll_t *wake_poll;
  size_t handles; /* libuv handles, open */
  bool stopping;
  struct dlk_map peers; /* by instance */
  struct dlk_list idle; /* peers without a watcher */
  size_t idle_count;
  /* key.c */
  struct dlk_map keys; /* open key files, by full key */
  struct dlk_list recent;
  size_t key_count, created;
  struct dlk_file_table table; /* of the last key entered */
  bool holders_changed;        /* since the mutex was taken */
};

/* Opens nothing. False: out of memory, nothing is to be freed. */
bool dlk_file_dir_init(struct dlk_file_dir *d, struct dlk_host *host,
                       const struct dlk_conf *conf, uint32_t seed);
void dlk_file_dir_free(struct dlk_file_dir *d);

enum dlk_code dlk_file_dir_open(struct dlk_file_dir *d, struct dlk_error *err);
/* Whether the path leads to no directory or another one. */
bool dlk_file_dir_lost(const struct dlk_file_dir *d);
/* NULL and errno. The descriptor is not registered for fork: it keeps nothing
 * alive. */
DIR *dlk_file_dir_list(const struct dlk_file_dir *d);
/* Opens a plain file of ours: fd, or -errno. mode: of a file to be made; 0:
 * none is. alone: it must have no second name. EPROTO: the name is no such
 * file, and was not opened. */
int dlk_file_own_open(struct dlk_file_dir *d, const char *name, mode_t mode,
                      bool alone);
int dlk_file_node_of(int fd, struct dlk_file_node *out);
/* Whether the descriptor is still open on the file. */
bool dlk_file_is_open(int fd, const struct dlk_file_node *node);
/* Whether the name leads to the open file. mode: its mode then, or NULL. */
bool dlk_file_named(const struct dlk_file_dir *d, const char *name, int fd,
                    const struct dlk_file_node *node, mode_t *mode);
/* Whether an empty file of that mode is one of ours. */
bool dlk_file_marked(mode_t mode);

/* The short mutex of a file: tried for microseconds, or once. */
int dlk_file_lock(int fd);
int dlk_file_try_lock(int fd);
void dlk_file_unlock(int fd);

#endif
