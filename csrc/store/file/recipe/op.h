/* An operation from submit to done. */
#ifndef DLK_STORE_FILE_RECIPE_OP_H
#define DLK_STORE_FILE_RECIPE_OP_H

#include "store/file/dir/key.h"
#include "store/file/dir/liveness.h"
#include "store/file/recipe/store.h"

enum dlk_file_phase {
  DLK_FILE_START, /* nothing of it is in the table */
  DLK_FILE_QUEUED,
  DLK_FILE_LEAVING /* it is to be taken out of the table */
};

struct dlk_file_op {
  struct dlk_timer timer;
  struct dlk_list link; /* in store->ops */
  struct dlk_file_store *store;
  struct dlk_op *op;
  /* What it does when it begins, a pause is over, or there is news. */
  void (*step)(struct dlk_file_op *f);
  enum dlk_file_phase phase;
  unsigned tries;
  struct dlk_file_watcher watcher;
  struct dlk_file_entry entry; /* of a CHANGE */
};

void dlk_file_op_begin(struct dlk_file_store *s, struct dlk_op *op,
                       void (*step)(struct dlk_file_op *f));
/* Connects if need be, and enters the op's key. 0; or ENOENT, if there is no
 * file and none was to be made; or ECANCELED, and then the op has ended or
 * will be stepped again. */
int dlk_file_visit(struct dlk_file_op *f, bool create,
                   struct dlk_file_key **out);
/* Tells those who wait for a change, commits, and lets the mutex go. */
int dlk_file_commit(struct dlk_file_dir *d, struct dlk_file_key *k);
/* The same at the end of an op's visit. When something went wrong the table in
 * memory says more than the one on disk, so nothing may be concluded from it:
 * false, and the op has ended or will be stepped again. */
bool dlk_file_finish(struct dlk_file_op *f, struct dlk_file_key *k);
/* The same for an op that puts an entry of its own in. Once it is on disk, as
 * any commit after `seq` may tell, the op does not end here: it is stepped
 * again, as one that is queued. */
bool dlk_file_finish_entry(struct dlk_file_op *f, struct dlk_file_key *k,
                           uint64_t seq);
/* The same for an op that is done with its first commit, which comes after
 * `seq`: what it does for others then may fail. */
bool dlk_file_finish_first(struct dlk_file_op *f, struct dlk_file_key *k,
                           uint64_t seq);
/* Connects if need be: 0, or ECANCELED as above. */
int dlk_file_ready(struct dlk_file_op *f);
/* Steps again soon. */
void dlk_file_retry(struct dlk_file_op *f);
/* Who that is goes to the op as the one who stood in the way. */
void dlk_file_keep_owner(struct dlk_op *op, const struct dlk_file_slot *slot);
/* The entry of the op's lease, or its own. */
struct dlk_file_entry *dlk_file_entry_of(struct dlk_file_op *f);
/* Watches no store any more. */
void dlk_file_unwatch(struct dlk_file_op *f);
/* What must not be left undone, even if nobody waits for it any more. */
bool dlk_file_must_go_on(const struct dlk_file_op *f);
/* Ends it: with a code and a text (err), or well (NULL). */
void dlk_file_end(struct dlk_file_op *f, const struct dlk_error *err);
void dlk_file_end_code(struct dlk_file_op *f, enum dlk_code code);
/* Ends it because its lease is not ours any more. */
void dlk_file_end_lost(struct dlk_file_op *f);
/* Ends it for an errno; steps it again if it must not end yet. */
void dlk_file_fail(struct dlk_file_op *f, int error);

/* Somebody wants us to look at the entry of that token. */
void dlk_file_look(struct dlk_file_dir *d, uint64_t token);

#endif
