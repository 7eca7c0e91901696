/* Which counters are known to be the newest, and why fences rise.
 *
 * A fence is what INCR made of the key's counter. That rises as long as the
 * server has the counter's last value. It may have none (FLUSHALL, an empty
 * restart, its memory is over): then the counter begins at the server's clock,
 * in which no fence given before lies ahead, see scripts/include/fence.lua. Or
 * it may have an *older* one: it restarted from a snapshot, or it is a replica
 * that took over without the last writes. Such a counter looks like any other,
 * and a plain INCR of it gives fences once more that were given before.
 *
 * So the first request of ours on a connection that raises the counter of a
 * key *lifts* it: by a script, to the clock or one above what it was, whichever
 * is more. Only after the answer to that are plain INCRs sent on this
 * connection. Why that is enough:
 * - After such a restart or takeover every client of the server has a new
 *   connection. Of all requests that raise the counter on it, the first one was
 *   not preceded by an answered lift on its connection, so it lifts. Every
 *   fence given before is at most the clock of its time.
 * - It does not matter who raises: whoever acquires, leaves, breaks or
 *   downgrades hands the lock to others by the same script, and it is that
 *   script's connection which counts, not those of the waiters. A renewal, a
 *   guarded write and a hand-over inside a process raise nothing; fences that
 *   are set aside for hand-overs were added to the counter when they were, and
 *   never beyond the clock.
 * - What is decided is decided when the request is written (`encode`), not when
 *   it is submitted: it may wait for the next connection meanwhile. Answers
 *   come on the connection on which their request was written, and all that is
 *   under way has ended before the next one is usable; so a mark that an answer
 *   sets is always the present connection's.
 * - An answer that is lost sets no mark, and lifting twice does no harm.
 * - The clock may be behind (another machine's, or it was set back): the
 *   counter then goes on by one. So fences fall only if the last ones are lost
 *   *and* the clock is behind by more than the outage took.
 *
 * What is left: a connection that stays while its server becomes a replica, is
 * given older data and becomes the primary again. Whoever asks it for anything
 * meanwhile hears READONLY and drops the connection (errors.c); who asks for
 * nothing notices nothing. Sentinel cuts the connections of a primary that it
 * demotes; docs/guarantees.md says it.
 * And while two servers are primaries at once, each counts by itself: what one
 * gives is below what the other gave since anybody last lifted the counter of
 * the one (spec/sim/primaries_spec.lua). A lift with each grant would not close
 * that gap, because two machines' clocks differ by more than a hold may last.
 * With `wait_replicas` a lift counts only when replicas confirmed it, as a
 * grant does. If they are half of all replicas or more, those who confirm
 * follow one primary at a time: what the other gave was confirmed before they
 * came, and so before the lift that counts.
 *
 * The counter's time: it stays for `fence_memory` from its last use, and longer
 * than what is held. A script sets an eighth more than that, unless a sixteenth
 * more is left, so that plain INCRs, which set nothing, may follow for as long
 * as the rest suffices. */
#include "store/redis/op/fence.h"

#include "core/clock.h"

#define DEFAULT_MEMORY (600 * DLK_SEC)

/* Another connection: nothing is known. */
static void compare_connection(struct dlk_redis_fences *f) {
  if (f->connection == f->link->connections)
    return;
  f->connection = f->link->connections;
  dlk_redis_lately_clear(&f->lifted);
}

static int64_t life_of(const struct dlk_redis_fences *f, int64_t holds) {
  int64_t memory = f->memory > 0 ? f->memory : DEFAULT_MEMORY;
  return holds > memory ? holds : memory;
}

int64_t dlk_redis_fence_memory(const struct dlk_redis_fences *f,
                               int64_t holds) {
  int64_t life = life_of(f, holds);
  return dlk_time_add(life, life / 8);
}

bool dlk_redis_fence_is_lifted(struct dlk_redis_fences *f, const char *key,
                               size_t len) {
  compare_connection(f);
  return dlk_redis_lately(&f->lifted, key, len) >= 0;
}

bool dlk_redis_fence_is_plain(struct dlk_redis_fences *f, const char *key,
                              size_t len, int64_t holds, int64_t now) {
  compare_connection(f);
  return dlk_redis_lately(&f->lifted, key, len) >=
         dlk_time_add(now, life_of(f, holds));
}

void dlk_redis_fence_lifted(struct dlk_redis_fences *f, const char *key,
                            size_t len) {
  if (!dlk_redis_fence_is_lifted(f, key, len))
    dlk_redis_lately_mark(&f->lifted, key, len, 0);
}

void dlk_redis_fence_stays(struct dlk_redis_fences *f, const char *key,
                           size_t len, int64_t holds, int64_t sent) {
  int64_t life = life_of(f, holds);
  compare_connection(f);
  dlk_redis_lately_mark(&f->lifted, key, len,
                        dlk_time_add(sent, dlk_time_add(life, life / 16)));
}

void dlk_redis_fence_contended(struct dlk_redis_fences *f, const char *key,
                               size_t len) {
  if (dlk_redis_fence_is_lifted(f, key, len))
    dlk_redis_lately_mark(&f->lifted, key, len, 0);
}
