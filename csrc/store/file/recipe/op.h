/* An operation from submit to its end, with its pauses and retries. */
#ifndef DLK_STORE_FILE_RECIPE_OP_H
#define DLK_STORE_FILE_RECIPE_OP_H

#include "store/file/dir/liveness.h"
#include "store/file/recipe/store.h"

enum dlk_file_phase {
  DLK_FILE_START, /* nothing of it is in the table */
  DLK_FILE_QUEUED,
  DLK_FILE_LEAVING /* it leaves the table */
};

struct dlk_file_op {
  struct dlk_timer timer;
  struct dlk_list link; /* in store->ops */
  struct dlk_file_store *store;
  struct dlk_op *op;
  /* Runs at the beginning, after a pause, and for news. */
  void (*step)(struct dlk_file_op *f);
  enum dlk_file_phase phase;
  unsigned tries;
  struct dlk_file_watcher watcher;
  struct dlk_file_entry entry; /* of a CHANGE */
};

void dlk_file_op_begin(struct dlk_file_store *s, struct dlk_op *op,
                       void (*step)(struct dlk_file_op *f));
/* Connects if need be, and enters the op's key. ENOENT: there is no file
 * (create false). ECANCELED: the op has ended or will be stepped again. */
int dlk_file_visit(struct dlk_file_op *f, bool create,
                   struct dlk_file_key **out);
/* Tells watchers, commits, unlocks. */
int dlk_file_commit(struct dlk_file_dir *d, struct dlk_file_key *k);
/* The same for an op. False: the commit failed, and the op has ended or will be
 * stepped again. */
bool dlk_file_finish(struct dlk_file_op *f, struct dlk_file_key *k);
/* The same for an op that adds its entry. If a commit after `seq` may have
 * stored it, the op is queued and stepped again. */
bool dlk_file_finish_entry(struct dlk_file_op *f, struct dlk_file_key *k,
                           uint64_t seq);
/* The same for an op that the first commit after `seq` completes; later ones
 * may fail. */
bool dlk_file_finish_first(struct dlk_file_op *f, struct dlk_file_key *k,
                           uint64_t seq);
/* Connects if need be: 0, or ECANCELED as above. */
int dlk_file_ready(struct dlk_file_op *f);
void dlk_file_retry(struct dlk_file_op *f);
/* Copies the slot's owner to op->holder. */
void dlk_file_keep_owner(struct dlk_op *op, const struct dlk_file_slot *slot);
/* The entry of the op's lease, or its own. */
struct dlk_file_entry *dlk_file_entry_of(struct dlk_file_op *f);
void dlk_file_unwatch(struct dlk_file_op *f);
/* Whether it goes on though nobody waits. */
bool dlk_file_must_go_on(const struct dlk_file_op *f);
/* err NULL: it went well. */
void dlk_file_end(struct dlk_file_op *f, const struct dlk_error *err);
void dlk_file_end_code(struct dlk_file_op *f, enum dlk_code code);
/* With a lease that is held, or lost. */
void dlk_file_end_held(struct dlk_file_op *f, bool held);
/* Ends it, or steps it again if it must not end yet. */
void dlk_file_fail(struct dlk_file_op *f, int error);

/* Looks at the token's entry, or at all (DLK_FILE_ALL). */
void dlk_file_look(struct dlk_file_dir *d, uint64_t token);

#endif
