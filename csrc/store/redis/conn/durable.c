/* WAIT speaks of what its connection has written so far, so one of them
 * confirms a whole batch, and it has to be on the same connection. A durable
 * request that was answered waits for the next answer to a WAIT: that belongs
 * to a WAIT behind it, since answers come in order.
 *
 * The server answers nothing else on the connection meanwhile. So nothing is
 * written either while one is under way: what comes then shares the next one,
 * and is not sent at all if the connection ends before. Otherwise each write
 * would bring a WAIT of its own, and where replicas are missing the times of
 * all of them add up, past io_timeout. And when there were too few replicas,
 * the next WAIT is given a short time only, until one succeeds: a replica that
 * died must not slow down every release.
 *
 * "All" is counted anew with each WAIT: behind it goes INFO replication. A
 * replica R may become the primary, and then a grant is lost that R lacks:
 *
 * 1. R is connected, in whatever state: INFO lists it, so it has to confirm.
 * 2. R connects later: what it copies has the grant.
 * 3. R is away: the Sentinels know it, and so it has to confirm. They are asked
 *    every 5 s while anything is granted.
 * 4. R was promoted already, or follows another one that was, and we do not
 *    know it yet: INFO lists it no more, but it was listed within MEMORY (and
 *    the Sentinels know it).
 *
 * So what counts is the most of the three, and one at the least: a primary that
 * lists none may be one that lost all of them.
 *
 * The end of a connection ends these requests as UNKNOWN, like any that is not
 * answered, and so does a WAIT that is refused (the server became a replica).
 * The WAIT itself ends with them, so the next connection may write.
 */
#include "store/redis/conn/durable.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "store/redis/wire/errors.h"

#define SHORT (50 * DLK_MS)
/* Redis gives up a replica that says nothing for so long (repl-timeout). */
#define MEMORY (60 * DLK_SEC)
/* Between two questions to the Sentinels. */
#define REFRESH (5 * DLK_SEC)

/* ---- how many there are ---- */

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

/* ---- WAIT ---- */

static void encode(struct dlk_redis_req *r, struct dlk_buf *out) {
  const struct dlk_redis_durable *d =
      DLK_CONTAINER(r, struct dlk_redis_durable, wait);
  bool short_one = d->scarce && d->timeout > SHORT;
  dlk_redis_put_array(out, 3);
  dlk_redis_put_text(out, "WAIT");
  dlk_redis_put_int(out, dlk_redis_durable_wanted(d));
  dlk_redis_put_int(out, dlk_to_ms(short_one ? SHORT : d->timeout));
  if (!d->all)
    return;
  dlk_redis_put_array(out, 2);
  dlk_redis_put_text(out, "INFO");
  dlk_redis_put_text(out, "replication");
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

static void refused(struct dlk_redis_durable *d, const char *text) {
  struct dlk_error why;
  dlk_redis_fault_error(&why, text, d->shown);
  dlk_redis_pipe_unsettled(d->pipe, &why);
  d->refused(d, &why);
}

static void done(struct dlk_redis_req *r, const struct dlk_redis_answer *a) {
  struct dlk_redis_durable *d =
      DLK_CONTAINER(r, struct dlk_redis_durable, wait);
  d->waits = false;
  if (a->outcome != DLK_REDIS_ANSWERED)
    return; /* they ended before */
  if (a->refusal || d->have < 0 || (d->all && d->now < 0)) {
    refused(d, a->refusal ? a->refusal : "ERR");
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

static void confirm(struct dlk_redis_durable *d, int64_t at) {
  d->waits = true;
  d->have = d->now = -1;
  d->wait.replies = d->all ? 2 : 1;
  d->wait.encode = encode;
  d->wait.each = each;
  d->wait.done = done;
  dlk_redis_pipe_write(d->pipe, &d->wait, at);
}

void dlk_redis_durable_write(struct dlk_redis_durable *d, int64_t at) {
  bool durable = dlk_redis_pipe_write_waiting(d->pipe, at);
  if (durable && d->wanted > 0)
    confirm(d, at);
}
