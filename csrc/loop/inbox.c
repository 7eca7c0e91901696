/* A post is in the stack at most once: `queued` is set before the push and
 * cleared right before it runs. */
#include "loop/inbox.h"

bool dlk_inbox_put(struct dlk_inbox *in, struct dlk_post *post) {
  if (atomic_exchange(&post->queued, true))
    return false;
  struct dlk_post *newest = atomic_load(&in->newest);
  do {
    post->next = newest;
  } while (!atomic_compare_exchange_weak(&in->newest, &newest, post));
  return true;
}

bool dlk_inbox_admit(struct dlk_inbox *in) {
  return atomic_fetch_add(&in->admitted, 1) < DLK_INBOX_MAX;
}

void dlk_inbox_run(struct dlk_inbox *in) {
  if (dlk_inbox_empty(in))
    return;
  struct dlk_post *newest = atomic_exchange(&in->newest, NULL), *oldest = NULL;
  atomic_store(&in->admitted, 0);
  while (newest) {
    struct dlk_post *p = newest;
    newest = p->next;
    p->next = oldest;
    oldest = p;
  }
  for (struct dlk_post *p = oldest, *next; p; p = next) {
    next = p->next;
    atomic_store(&p->queued, false);
    p->run(p);
  }
}
