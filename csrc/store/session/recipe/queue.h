/* The admission rule: who of a lock's contenders holds it, and what the
 * others have to watch. Pure; knows names only. */
#ifndef DLK_STORE_SESSION_RECIPE_QUEUE_H
#define DLK_STORE_SESSION_RECIPE_QUEUE_H

#include "store/session/format/names.h"

#ifndef DLK_SS_WATCH_MAX /* a simulation has less */
#define DLK_SS_WATCH_MAX 16
#endif

enum dlk_ss_verdict {
  DLK_SS_ABSENT,      /* the node is not in the list */
  DLK_SS_HOLDS,       /* it fits, with everything ahead of it */
  DLK_SS_WATCH_NODES, /* wait for a change of one of the watched */
  DLK_SS_WATCH_LIST,  /* too many to watch one by one: watch the children */
  DLK_SS_OTHER_LIMIT  /* one ahead of it uses another limit */
};

struct dlk_ss_queue {
  struct dlk_ss_entry *at; /* in order, first come first */
  size_t count;
};

struct dlk_ss_judgement {
  enum dlk_ss_verdict verdict;
  size_t me;                      /* its place */
  size_t watch[DLK_SS_WATCH_MAX]; /* places of the nodes to watch */
  size_t watch_count;
};

/* Parses a list of children; names of nobody are left out. The names must
 * outlive the queue. False: out of memory. */
bool dlk_ss_queue_read(struct dlk_ss_queue *q, char *const *names,
                       size_t count);
void dlk_ss_queue_free(struct dlk_ss_queue *q);

void dlk_ss_queue_take_out(struct dlk_ss_queue *q, size_t place);
/* When the first of the stand-ins ends that it has to wait for; 0: none. */
int64_t dlk_ss_queue_first_end(const struct dlk_ss_queue *q,
                               const struct dlk_ss_judgement *j);

/* An exclusive hold that was downgraded counts as one reader from then on,
 * though its name says otherwise: its node's data says so. */
void dlk_ss_queue_downgrade(struct dlk_ss_queue *q, size_t place);

/* The place of the contender with this guid, or count. */
size_t dlk_ss_queue_find(const struct dlk_ss_queue *q, const char *guid);

void dlk_ss_queue_judge(const struct dlk_ss_queue *q, size_t place,
                        struct dlk_ss_judgement *out);
/* The same for one who would come last. */
void dlk_ss_queue_judge_newcomer(const struct dlk_ss_queue *q, uint32_t units,
                                 uint32_t cap, struct dlk_ss_judgement *out);

#endif
