/* Requests that count only when replicas have their writes.
 *
 * I1  WAIT confirms all that its connection wrote before. Answers come in
 *     order, so an answered durable request settles with the next answer to
 *     WAIT.
 * I2  Nothing is written while a WAIT is under way. Else each write would bring
 *     its own, and their times could add up past io_timeout.
 * I3  After a WAIT with too few replicas the next ones get SHORT until one
 *     succeeds: a dead replica must not slow each release.
 * I4  A refused WAIT (by a replica) and the connection's end make these
 *     requests UNKNOWN.
 *
 * With "all", INFO replication follows each WAIT. A grant is lost if a replica
 * R without it becomes the primary:
 *
 * 1. R is connected, in any state: INFO lists it, so it must confirm.
 * 2. R connects later: its copy has the grant.
 * 3. R is away: the Sentinels, asked each REFRESH, know it.
 * 4. R was promoted, or follows a promoted one: INFO listed it within MEMORY,
 *    and the Sentinels know it.
 *
 * So the most of these must confirm, and at least one: a primary that lists
 * none may have lost all. */
#include "store/redis/conn/durable.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "store/redis/wire/errors.h"

#define SHORT (50 * DLK_MS)
/* repl-timeout: Redis drops a silent replica */
#define MEMORY (60 * DLK_SEC)
#define REFRESH (5 * DLK_SEC)

int64_t dlk_redis_durable_listed(const char *text) {
  static const char name[] = "connected_slaves:";
  const char *at = strstr(text, name);
  char *end;
  if (!at)
    return -1;
  at += strlen(name);
  unsigned long n = strtoul(at, &end, 10);
  return end == at || n > 1000000 ? -1 : (int64_t)n;
}

void dlk_redis_durable_count(struct dlk_redis_durable *d, int64_t listed,
                             int64_t at) {
  if (listed < d->listed && at - d->listed_at < MEMORY)
    return;
  d->listed = listed < 0 ? 0 : (unsigned)listed;
  d->listed_at = at;
}

unsigned dlk_redis_durable_there(const struct dlk_redis_durable *d) {
  bool more = d->known && *d->known > (int64_t)d->listed;
  return more ? (unsigned)*d->known : d->listed;
}

unsigned dlk_redis_durable_wanted(const struct dlk_redis_durable *d) {
  unsigned there = dlk_redis_durable_there(d);
  return d->all && there > d->wanted ? there : d->wanted;
}

static void encode(struct dlk_redis_req *r, struct dlk_buf *out) {
  const struct dlk_redis_durable *d =
      DLK_CONTAINER(r, struct dlk_redis_durable, wait);
  bool short_one = d->scarce && d->timeout > SHORT;
  dlk_redis_put_array(out, 3);
  dlk_redis_put_text(out, "WAIT");
  dlk_redis_put_int(out, dlk_redis_durable_wanted(d));
  dlk_redis_put_int(out, dlk_to_ms(short_one ? SHORT : d->timeout));
  if (d->all)
    dlk_redis_put_words(out, "INFO", "replication", NULL);
}

static void each(struct dlk_redis_req *r, unsigned index,
                 const redisReply *reply) {
  struct dlk_redis_durable *d =
      DLK_CONTAINER(r, struct dlk_redis_durable, wait);
  if (reply->type == REDIS_REPLY_INTEGER && index == 0)
    d->have = reply->integer < 0 ? 0 : reply->integer;
  else if (reply->type == REDIS_REPLY_STRING && index == 1)
    d->now = dlk_redis_durable_listed(reply->str);
}

static void done(struct dlk_redis_req *r, const struct dlk_redis_answer *a) {
  struct dlk_redis_durable *d =
      DLK_CONTAINER(r, struct dlk_redis_durable, wait);
  d->waits = false;
  if (a->outcome != DLK_REDIS_ANSWERED)
    return; /* they ended before */
  if (a->refusal || d->have < 0 || (d->all && d->now < 0)) {
    struct dlk_error why;
    dlk_redis_fault_error(&why, a->refusal ? a->refusal : "ERR", d->shown);
    dlk_redis_pipe_unsettled(d->pipe, &why);
    d->refused(d, &why);
    return;
  }
  if (d->all)
    dlk_redis_durable_count(d, d->now, r->sent);
  unsigned wanted = dlk_redis_durable_wanted(d);
  d->scarce = d->have < (int64_t)wanted;
  if (d->scarce || (d->all && r->sent - d->asked > REFRESH)) {
    d->asked = r->sent;
    d->doubt(d);
  }
  dlk_redis_pipe_settle(d->pipe, (unsigned)d->have, wanted);
}

void dlk_redis_durable_write(struct dlk_redis_durable *d, int64_t at) {
  bool durable = dlk_redis_pipe_write_waiting(d->pipe, at);
  if (!durable || d->wanted == 0)
    return;
  d->waits = true;
  d->have = d->now = -1;
  d->wait.replies = d->all ? 2 : 1;
  d->wait.encode = encode;
  d->wait.each = each;
  d->wait.done = done;
  dlk_redis_pipe_write(d->pipe, &d->wait, at);
}
