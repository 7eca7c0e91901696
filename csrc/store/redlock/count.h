/* The counting of votes, and nothing else: see count.c. */
#ifndef DLK_STORE_REDLOCK_COUNT_H
#define DLK_STORE_REDLOCK_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#define DLK_REDLOCK_NODES 9

/* Of the nodes listed, not of those that answer. */
unsigned dlk_redlock_quorum(unsigned nodes);

enum dlk_redlock_verdict {
  DLK_REDLOCK_OPEN,
  DLK_REDLOCK_WON,
  DLK_REDLOCK_LOST
};
/* open: so many may still say yes. */
enum dlk_redlock_verdict dlk_redlock_judge(unsigned q, unsigned yes,
                                           unsigned open);

/* The q-th largest of the ends of votes; INT64_MIN: fewer than q. */
int64_t dlk_redlock_deadline(unsigned q, const int64_t *ends, unsigned count);

/* The fence of a hold with these counters' values (0: none) and our clock's
 * value. *agreed: q votes carry it already; else q have to be raised to it. */
int64_t dlk_redlock_fence(unsigned q, const int64_t *values, unsigned count,
                          int64_t clock, bool *agreed);
/* The longest pause after a round that took `took`: the splits-th in a row that
 * others split with us. behind: one of them goes first. */
int64_t dlk_redlock_pause(int64_t took, unsigned splits, bool behind);
/* Our clock in units of fences, as include/fence.lua counts. */
int64_t dlk_redlock_clock(void);

#endif
