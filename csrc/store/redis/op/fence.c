/* Which counters of fences are known to be the newest, and why fences rise.
 *
 *   counter  F on the server; a fence is its value after INCRBY
 *   lift     a script's raise of F to the server's clock, or by one if that is
 *            more
 *   clock    64 for each ms since September 2020, above each earlier fence: no
 *            key gets so many grants (scripts/include/fence.lua)
 *
 * A missing counter begins at the clock. An older one (a snapshot, a replica
 * without the last writes) cannot be told from the last one by counting.
 *
 * I1 The first request on a connection that raises a counter lifts it. Plain
 *    counting (take.lua) follows only after the answer.
 * I2 After a restart or a takeover all connections are new. So the first
 *    request that raises a counter lifts it, above every fence of before.
 * I3 The connection of the script counts, not that of the waiter that gets the
 *    lock. Renewals, guarded writes and local hand-overs raise nothing; fences
 *    set aside are in the counter, and never beyond the clock.
 * I4 `encode` decides, not submit: a request may wait for the next connection.
 *    All requests of a connection end before the next one is usable.
 *
 * Answer lost: no mark; a second lift does no harm.
 * Clock behind: the counter goes on by one. Fences fall only if the last ones
 * are lost and the clock is behind by more than the outage took.
 * Server that turns replica and back on one connection: a request in between
 * gets READONLY and drops the connection. Sentinel cuts those of a demoted one;
 * for a cluster see I3 of conn/cluster.c.
 * Two primaries at once: fences of one are below those of the other since the
 * last lift (primaries_spec.lua). Two clocks may differ, so more lifts do not
 * help. With `wait_replicas` a lift counts when replicas confirmed it.
 *
 * The counter stays for `fence_memory` after its last use, and longer than a
 * hold. A script sets an eighth more, unless a sixteenth more is left, so that
 * plain counting may follow. */
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
