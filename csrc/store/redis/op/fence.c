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
 *
 * The counter's time: it stays for `fence_memory` from its last use, and longer
 * than what is held. A script sets an eighth more than that, so that plain
 * INCRs, which set nothing, may follow for as long as the rest suffices. */
#include "store/redis/op/machine.h"

#define DEFAULT_MEMORY (600 * DLK_SEC)

/* Keys by a hash with a seed that nobody else knows: two of them are never
 * taken for one. A newer one takes the place. */
static struct dlk_redis_lately *place_of(struct dlk_redis *s,
                                         struct dlk_redis_lately *table,
                                         const char *key, size_t len,
                                         uint64_t *hash) {
  uint64_t h = s->seed;
  for (size_t i = 0; i < len; i++)
    h = (h ^ (unsigned char)key[i]) * UINT64_C(1099511628211);
  h ^= h >> 32;
  *hash = h | 1; /* 0 is nobody's */
  return &table[h / 2 % DLK_REDIS_LATELY];
}

bool dlk_redis_lately(struct dlk_redis *s, struct dlk_redis_lately *table,
                      const char *key, size_t len, int64_t until) {
  uint64_t h;
  const struct dlk_redis_lately *at = place_of(s, table, key, len, &h);
  return at->hash == h && at->until >= until;
}

void dlk_redis_lately_mark(struct dlk_redis *s, struct dlk_redis_lately *table,
                           const char *key, size_t len, int64_t until) {
  uint64_t h;
  struct dlk_redis_lately *at = place_of(s, table, key, len, &h);
  at->hash = h;
  at->until = until;
}

/* Another connection: nothing is known. */
static void compare_connection(struct dlk_redis *s) {
  if (s->lifted_on == s->link->connections)
    return;
  s->lifted_on = s->link->connections;
  memset(s->lifted, 0, sizeof s->lifted);
}

static int64_t life_of(const struct dlk_redis_call *call) {
  int64_t memory = call->store->conf.fence_memory;
  if (memory <= 0)
    memory = DEFAULT_MEMORY;
  return call->holds > memory ? call->holds : memory;
}

int64_t dlk_redis_fence_memory(const struct dlk_redis_call *call) {
  int64_t life = life_of(call);
  return dlk_time_add(life, life / 8);
}

bool dlk_redis_fence_is_lifted(struct dlk_redis_call *call) {
  compare_connection(call->store);
  return dlk_redis_lately(call->store, call->store->lifted, call->key,
                          call->key_len, 0);
}

bool dlk_redis_fence_is_plain(struct dlk_redis_call *call) {
  struct dlk_redis *s = call->store;
  compare_connection(s);
  return dlk_redis_lately(s, s->lifted, call->key, call->key_len,
                          dlk_time_add(dlk_redis_now(s), life_of(call)));
}

void dlk_redis_fence_lifted(struct dlk_redis_call *call, bool stays) {
  struct dlk_redis *s = call->store;
  compare_connection(s);
  int64_t until =
      stays ? dlk_time_add(call->req.sent, dlk_redis_fence_memory(call)) : 0;
  if (stays || !dlk_redis_fence_is_lifted(call))
    dlk_redis_lately_mark(s, s->lifted, call->key, call->key_len, until);
}

void dlk_redis_fence_contended(struct dlk_redis_call *call) {
  struct dlk_redis *s = call->store;
  if (dlk_redis_fence_is_lifted(call))
    dlk_redis_lately_mark(s, s->lifted, call->key, call->key_len, 0);
}
