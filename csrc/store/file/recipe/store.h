#ifndef DLK_STORE_FILE_RECIPE_STORE_H
#define DLK_STORE_FILE_RECIPE_STORE_H

#include "store/file/dir/dir.h"

struct dlk_file_store {
  struct dlk_file_dir dir;
  struct dlk_map entries; /* ours in tables, by token */
  uint64_t token;         /* the last one */
  struct dlk_list ops;    /* submitted and not ended */
  DIR *sweep;
  size_t sweep_names; /* left in this portion */
  struct dlk_timer sweep_timer;
};

static inline struct dlk_file_store *dlk_file_store_of(struct dlk_file_dir *d) {
  return DLK_CONTAINER(d, struct dlk_file_store, dir);
}

#endif
