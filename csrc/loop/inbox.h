/* Work for the loop's owner from any thread: a stack of posts, run in the order
 * of arrival. A push never waits. */
#ifndef DLK_LOOP_INBOX_H
#define DLK_LOOP_INBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/post.h"

struct dlk_inbox {
  struct dlk_post *_Atomic newest;
  atomic_size_t admitted; /* about so many posts since the last run */
};

#define DLK_INBOX_MAX 65536

static inline bool dlk_inbox_empty(struct dlk_inbox *in) {
  return atomic_load(&in->newest) == NULL;
}

/* False: it is in there already. The caller wakes the owner. */
bool dlk_inbox_put(struct dlk_inbox *in, struct dlk_post *post);
/* Counts a post to come; false: there are DLK_INBOX_MAX. */
bool dlk_inbox_admit(struct dlk_inbox *in);
/* By the owner. */
void dlk_inbox_run(struct dlk_inbox *in);

#endif
