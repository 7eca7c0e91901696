/* The store, and its entries in tables. */
#ifndef DLK_STORE_FILE_RECIPE_STORE_H
#define DLK_STORE_FILE_RECIPE_STORE_H

#include "store/file/dir/key.h"

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

/* sweep.c; from: of dlk_file_sweep_due. */
void dlk_file_sweep_start(struct dlk_file_store *s, int64_t from);
void dlk_file_sweep_stop(struct dlk_file_store *s);

/* entry.c. Gives e to op under a new token, so messages for the old one find
 * nobody. False: out of memory. */
bool dlk_file_enlist(struct dlk_file_store *s, struct dlk_file_entry *e,
                     struct dlk_op *op);
void dlk_file_forget(struct dlk_file_store *s, struct dlk_file_entry *e);
struct dlk_file_entry *dlk_file_entry_find(struct dlk_file_store *s,
                                           uint64_t token);
/* All tokens, to be freed; NULL: out of memory. */
uint64_t *dlk_file_entry_tokens(struct dlk_file_store *s, size_t *count);
bool dlk_file_entry_claims(struct dlk_file_dir *d, uint64_t token);
/* Loses all holds except those being released. */
void dlk_file_entries_lose(struct dlk_file_store *s, const char *why);
bool dlk_file_entry_holds(struct dlk_file_dir *d, const char *key, size_t len);
/* Tells of a hold that was broken or revoked. */
void dlk_file_entry_look(struct dlk_file_store *s, struct dlk_file_entry *e);

#endif
