/* Work for the loop's owner, from any thread: a stack of posts that anybody may
 * push to without waiting, which the owner takes as a whole and runs in the
 * order in which they came. */
#ifndef DLK_LOOP_INBOX_H
#define DLK_LOOP_INBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/post.h"

struct dlk_inbox {
  struct dlk_post *_Atomic newest; /* the latest first */
  atomic_size_t admitted; /* about so many of them were, since the last run */
};

#define DLK_INBOX_MAX 65536

static inline bool dlk_inbox_empty(struct dlk_inbox *in) {
  return atomic_load(&in->newest) == NULL;
}

/* False: it is in there already. The owner has to be woken: see owner.h. */
bool dlk_inbox_put(struct dlk_inbox *in, struct dlk_post *post);
/* Counts a post that is going to be put; false: there are DLK_INBOX_MAX. */
bool dlk_inbox_admit(struct dlk_inbox *in);
/* By the owner: runs what is in there now. */
void dlk_inbox_run(struct dlk_inbox *in);

#endif
