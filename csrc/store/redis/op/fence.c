/* Which counters of fences are known to be the newest, and why fences rise.
 *
 * Definitions
 *   counter  F on the server; a fence is its value after INCR
 *   lift     a script's raise of F to the server's clock, or by one if that is
 *            more
 *   clock    64 for each ms since September 2020: no key gets so many grants,
 *            so it is above each fence of before (scripts/include/fence.lua)
 *
 * The server may have no counter (FLUSHALL, an empty restart): the script
 * begins at the clock. Or it may have an older one (a snapshot, a replica
 * without the last writes), which a plain INCR cannot tell from the last one.
 *
 * I1 The first request on a connection that raises a counter lifts it. Plain
 *    INCRs follow only after the answer.
 * I2 After a restart or a takeover all connections are new. So whoever raises
 *    a counter first lifts it, and every earlier fence is at most the clock of
 *    its time.
 * I3 The connection of the script counts, not that of the waiter who gets the
 *    lock. Renewals, guarded writes and local hand-overs raise nothing; fences
 *    set aside are in the counter, and never beyond the clock.
 * I4 `encode` decides, not submit: a request may wait for the next connection.
 *    All requests of a connection end before the next one is usable, so a mark
 *    that an answer sets is one of the present connection.
 *
 * Answer lost: no mark; a second lift does no harm.
 * Clock behind: the counter goes on by one. Fences fall only if the last ones
 * are lost and the clock is behind by more than the outage took.
 * Server that turns replica, takes older data, and turns back on one
 * connection: any request in between gets READONLY and drops the connection
 * (errors.c). Sentinel cuts the connections of a demoted primary.
 * Two primaries at once: each counts alone, and fences of one are below those
 * of the other since the last lift (spec/sim/primaries_spec.lua). A lift with
 * each grant would not help: two clocks differ by more than a hold may last.
 * With `wait_replicas` a lift counts only when replicas confirmed it; half of
 * all replicas follow one primary at a time.
 *
 * The counter stays for `fence_memory` after its last use, and longer than a
 * hold. A script sets an eighth more, unless a sixteenth more is left, so that
 * plain INCRs, which set nothing, may follow. */
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

void dlk_redis_fence_missing(struct dlk_redis_fences *f, const char *key,
                             size_t len) {
  if (dlk_redis_fence_is_lifted(f, key, len))
    dlk_redis_lately_mark(&f->lifted, key, len, 0);
}
