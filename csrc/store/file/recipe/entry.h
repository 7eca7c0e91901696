#ifndef DLK_STORE_FILE_RECIPE_ENTRY_H
#define DLK_STORE_FILE_RECIPE_ENTRY_H

#include "store/file/dir/key.h"
#include "store/file/recipe/store.h"

/* Gives e to op under a new token, so messages for the old one find nobody.
 * False: out of memory. */
bool dlk_file_enlist(struct dlk_file_store *s, struct dlk_file_entry *e,
                     struct dlk_op *op);
/* op releases the hold e, if it is still ours. */
void dlk_file_entry_ends(struct dlk_file_entry *e, struct dlk_op *op);
/* e has become a hold. */
void dlk_file_entry_won(struct dlk_file_entry *e);
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
