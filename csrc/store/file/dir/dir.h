/* Functions that return int answer 0 or an errno; EAGAIN: another process has
 * the short mutex for a moment. */
#ifndef DLK_STORE_FILE_DIR_DIR_H
#define DLK_STORE_FILE_DIR_DIR_H

#include <dirent.h>
#include <sys/stat.h>
#include <uv.h>

#include "core/list.h"
#include "core/map.h"
#include "store/file/format/table.h"
#include "store/store.h"

#define DLK_FILE_SCAN 10000 /* holders looked at in one go */

/* Modes of our files: before and after the first commit. */
#define DLK_FILE_NEW 01700
#define DLK_FILE_MADE 01600

/* Guards of key.c have fences above it. */
#define DLK_FILE_FENCES (DLK_FENCE_END - 1000000)

#define DLK_FILE_ALL 0 /* a token for all slots */

struct dlk_file_dir;

struct dlk_file_dir_user {
  /* A store asks for a look at the token's slot. */
  void (*look)(struct dlk_file_dir *d, uint64_t token);
  /* Whether we hold the key. */
  bool (*holds)(struct dlk_file_dir *d, const char *key, size_t len);
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
  int meta;        /* -1 until connected */
  bool meta_good;  /* its magic was seen */
  int64_t ttl;     /* "~store" has this or more */
  int64_t longest; /* in any "~store" that we saw */
  /* liveness.c */
  int wake;          /* -1 until connected */
  uint64_t instance; /* of the pipe and our slots */
  uv_poll_t *wake_poll;
  size_t handles; /* not closed yet */
  bool stopping;
  struct dlk_map peers; /* by instance */
  struct dlk_list idle;
  size_t idle_count;
  /* key.c */
  struct dlk_map keys; /* by full key */
  struct dlk_list recent;
  size_t key_count, created;
  struct dlk_file_table table; /* of the last key entered */
  bool holders_changed;        /* since the mutex was taken */
};

/* False: out of memory, nothing is to be freed. */
bool dlk_file_dir_init(struct dlk_file_dir *d, struct dlk_host *host,
                       const struct dlk_conf *conf, uint32_t seed);
void dlk_file_dir_free(struct dlk_file_dir *d);

enum dlk_code dlk_file_dir_open(struct dlk_file_dir *d, struct dlk_error *err);
/* Whether the path leads elsewhere. */
bool dlk_file_dir_lost(const struct dlk_file_dir *d);
/* NULL and errno. Its descriptor is not registered for fork. */
DIR *dlk_file_dir_list(const struct dlk_file_dir *d);
/* Opens a plain file of ours: fd, or -errno; EPROTO: the name is none. mode: of
 * a file to be made, or 0. alone: it must have no second name. */
int dlk_file_own_open(struct dlk_file_dir *d, const char *name, mode_t mode,
                      bool alone);
/* file: the descriptor's, or NULL. */
bool dlk_file_named(const struct dlk_file_dir *d, const char *name, int fd,
                    struct stat *file);
bool dlk_file_same(const struct stat *a, const struct stat *b);
/* Whether an empty file may be ours. */
bool dlk_file_marked(mode_t mode);

/* The short mutex: tried for microseconds, or once. */
int dlk_file_lock(int fd);
int dlk_file_try_lock(int fd);
void dlk_file_unlock(int fd);

#endif
