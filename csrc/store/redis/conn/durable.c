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
 * What ends a connection ends these requests as UNKNOWN, like any that is not
 * answered, and so does a WAIT that is refused (the server became a replica).
 * The WAIT itself ends with them, so the next connection may write.
 */
#include "store/redis/conn/durable.h"

#include <hiredis/hiredis.h>

#include "core/clock.h"
#include "store/redis/wire/errors.h"

#define SHORT (50 * DLK_MS)

static void encode(struct dlk_redis_req *r, struct dlk_buf *out) {
  const struct dlk_redis_durable *d =
      DLK_CONTAINER(r, struct dlk_redis_durable, wait);
  bool short_one = d->scarce && d->timeout > SHORT;
  dlk_redis_put_array(out, 3);
  dlk_redis_put_text(out, "WAIT");
  dlk_redis_put_int(out, d->wanted);
  dlk_redis_put_int(out, dlk_to_ms(short_one ? SHORT : d->timeout));
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
  if (a->refusal || a->reply->type != REDIS_REPLY_INTEGER) {
    refused(d, a->refusal ? a->refusal : "ERR");
    return;
  }
  int64_t have = a->reply->integer < 0 ? 0 : a->reply->integer;
  d->scarce = have < d->wanted;
  if (d->scarce)
    d->in_vain(d);
  dlk_redis_pipe_settle(d->pipe, (unsigned)have, d->wanted);
}

static void confirm(struct dlk_redis_durable *d, int64_t at) {
  d->waits = true;
  d->wait.replies = 1;
  d->wait.encode = encode;
  d->wait.done = done;
  dlk_redis_pipe_write(d->pipe, &d->wait, at);
}

void dlk_redis_durable_write(struct dlk_redis_durable *d, int64_t at) {
  bool durable = dlk_redis_pipe_write_waiting(d->pipe, at);
  if (durable && d->wanted > 0)
    confirm(d, at);
}
