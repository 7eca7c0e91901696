/* The admission rule: which contenders hold, and what others watch. Knows names
 * only. */
#ifndef DLK_STORE_SESSION_RECIPE_QUEUE_H
#define DLK_STORE_SESSION_RECIPE_QUEUE_H

#include "store/session/format/names.h"

#ifndef DLK_SS_WATCH_MAX /* a simulation has less */
#define DLK_SS_WATCH_MAX 16
#endif

enum dlk_ss_verdict {
  DLK_SS_ABSENT, /* not in the list */
  DLK_SS_HOLDS,
  DLK_SS_WATCH_NODES, /* wait for a change of a watched one */
  DLK_SS_WATCH_LIST,  /* too many to watch: watch the children */
  DLK_SS_OTHER_LIMIT  /* one ahead has another limit */
};

struct dlk_ss_queue {
  struct dlk_ss_entry *at; /* in order */
  size_t count;
};

struct dlk_ss_judgement {
  enum dlk_ss_verdict verdict;
  size_t me;                      /* its place */
  size_t watch[DLK_SS_WATCH_MAX]; /* places to watch */
  size_t watch_count;
};

/* Foreign names are left out; others must outlive the queue. False: no memory.
 */
bool dlk_ss_queue_read(struct dlk_ss_queue *q, char *const *names,
                       size_t count);
void dlk_ss_queue_free(struct dlk_ss_queue *q);

void dlk_ss_queue_take_out(struct dlk_ss_queue *q, size_t place);
/* When the first stand-in ends that j waits for; 0: none. */
int64_t dlk_ss_queue_first_end(const struct dlk_ss_queue *q,
                               const struct dlk_ss_judgement *j);

/* A downgraded exclusive hold counts as one reader: its data says so, its name
 * does not. */
void dlk_ss_queue_downgrade(struct dlk_ss_queue *q, size_t place);

void dlk_ss_queue_judge(const struct dlk_ss_queue *q, size_t place,
                        struct dlk_ss_judgement *out);
/* One that would come last. */
void dlk_ss_queue_judge_newcomer(const struct dlk_ss_queue *q, uint32_t units,
                                 uint32_t cap, struct dlk_ss_judgement *out);

#endif
