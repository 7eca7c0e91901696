/* Our slots, found by the token under which others know them. */
#ifndef DLK_STORE_FILE_RECIPE_ENTRY_H
#define DLK_STORE_FILE_RECIPE_ENTRY_H

#include "store/file/dir/key.h"
#include "store/file/recipe/store.h"

/* e is op's, and its lease's if it has one, under a new token: news for an old
 * one finds nobody. False: out of memory. */
bool dlk_file_enlist(struct dlk_file_store *s, struct dlk_file_entry *e,
                     struct dlk_op *op);
/* e is a hold that op releases, if it is ours yet. */
void dlk_file_entry_ends(struct dlk_file_entry *e, struct dlk_op *op);
/* e is no op's any more, but a hold. */
void dlk_file_entry_won(struct dlk_file_entry *e);
/* e is nobody's any more. */
void dlk_file_forget(struct dlk_file_store *s, struct dlk_file_entry *e);
/* NULL: there is none. */
struct dlk_file_entry *dlk_file_entry_find(struct dlk_file_store *s,
                                           uint64_t token);
/* All tokens, to be freed; NULL: out of memory. */
uint64_t *dlk_file_entry_tokens(struct dlk_file_store *s, size_t *count);
/* Whether one has this token. */
bool dlk_file_entry_claims(struct dlk_file_dir *d, uint64_t token);
/* All holds are lost, except what is being released. */
void dlk_file_entries_lose(struct dlk_file_store *s, const char *why);
/* Whether one is a hold of this key. */
bool dlk_file_entry_holds(struct dlk_file_dir *d, const char *key, size_t len);
/* A hold with news: it is gone, or somebody asked for it. */
void dlk_file_entry_look(struct dlk_file_store *s, struct dlk_file_entry *e);

#endif
