/* How N nodes' votes become one hold with a deadline and a fence.
 *
 *   N, q    the nodes listed; q = N/2 + 1, so two sets of q share a node
 *   vote    one token on one node. Each has a token of its own, which is asked
 *           for once and never again
 *   end     of a vote: its request's time + ttl, less the margin
 *   f       a vote's value of its node's counter; 0: the counter is missing
 *   m(A)    the fence of hold A
 *   W(A)    q nodes of A that had a counter >= m(A), and gave A a value
 *           <= m(A), while A's token stood there
 *
 * I1 A hold's deadline is the q-th largest end. Until then q nodes hold its
 *    tokens for sure.
 * I2 Two holds never have q votes at once: they share a node, and a node's key
 *    holds one token.
 * I3 m(A) is a value that q votes carry; else the largest value, and W(A) are
 *    q votes with that value, or that a script has raised while their token
 *    stood.
 * I4 A and B have a node n of W(A) and of W(B) in common. Say A's token stood
 *    there first. The counter was >= m(A) when it went, so B's vote got at
 *    least m(A) + 1, and m(B) is no less. So fences differ, and rise for a
 *    hold that begins after another one. I4 needs no clock.
 * I5 A node that lost its data has no counter until a raise: the counter's
 *    process is the server's. A value of another process does not count.
 *
 * Fewer than q values (first use, a day without use, most nodes restarted): m
 * is our clock's value at least, so the fence then rests on clocks. A renewal
 * raises all counters of the hold's nodes.
 * Late vote: it joins the hold. With a larger value than m(A) it is none of
 * W(A), raised or not: I4 needs m(B) >= B's value at n. */
#include "store/redlock/count.h"

#include <time.h>

#include "core/clock.h"

#define FIRST INT64_C(1000000000000)
#define SHORTEST_PAUSE (2 * DLK_MS)
#define LONGEST_PAUSE (250 * DLK_MS)

unsigned dlk_redlock_quorum(unsigned nodes) {
  return nodes / 2 + 1;
}

enum dlk_redlock_verdict dlk_redlock_judge(unsigned q, unsigned yes,
                                           unsigned open) {
  return yes >= q          ? DLK_REDLOCK_WON
         : yes + open >= q ? DLK_REDLOCK_OPEN
                           : DLK_REDLOCK_LOST;
}

int64_t dlk_redlock_deadline(unsigned q, const int64_t *ends, unsigned count) {
  int64_t found = INT64_MIN;
  for (unsigned i = 0; i < count; i++) {
    unsigned as_late = 0;
    for (unsigned j = 0; j < count; j++)
      as_late += ends[j] >= ends[i];
    if (as_late >= q && ends[i] > found)
      found = ends[i];
  }
  return found;
}

int64_t dlk_redlock_fence(unsigned q, const int64_t *values, unsigned count,
                          int64_t clock, bool *agreed) {
  int64_t largest = 0;
  unsigned known = 0;
  *agreed = true;
  for (unsigned i = 0; i < count; i++) {
    unsigned same = 0;
    for (unsigned j = 0; j < count; j++)
      same += values[j] == values[i];
    if (values[i] > 0 && same >= q)
      return values[i];
    known += values[i] > 0;
    if (values[i] > largest)
      largest = values[i];
  }
  *agreed = false;
  return known < q && clock > largest ? clock : largest;
}

int64_t dlk_redlock_pause(int64_t took, unsigned splits, bool behind) {
  int64_t most = LONGEST_PAUSE;
  if (splits < 8 && took << splits < most)
    most = took << splits;
  if (splits == 0 || most < SHORTEST_PAUSE)
    most = SHORTEST_PAUSE;
  return splits > 0 && behind ? 2 * most : most;
}

int64_t dlk_redlock_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  int64_t s = t.tv_sec > 1600000000 ? t.tv_sec - 1600000000 : 0;
  return FIRST + s * 64000 + (int64_t)t.tv_nsec / 1000 * 64 / 1000;
}
