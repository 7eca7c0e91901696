/* I1  `flying` is in the order of the bytes; a reply belongs to its first
 *     request.
 * I2  `done` may free its request and end the connection. */
#include "store/redis/conn/pipe.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

static struct dlk_redis_req *first(const struct dlk_list *l) {
  return DLK_CONTAINER(l->next, struct dlk_redis_req, entry);
}

void dlk_redis_pipe_init(struct dlk_redis_pipe *p, struct dlk_buf *out) {
  p->out = out;
  dlk_list_init(&p->waiting);
  dlk_list_init(&p->flying);
  dlk_list_init(&p->settling);
}

bool dlk_redis_pipe_open(struct dlk_redis_pipe *p) {
  p->reader = redisReaderCreate();
  memset(&p->scan, 0, sizeof p->scan);
  p->refused[0] = '\0';
  return p->reader != NULL;
}

void dlk_redis_pipe_close(struct dlk_redis_pipe *p) {
  if (p->reader)
    redisReaderFree(p->reader);
  p->reader = NULL;
  p->in_len = 0;
}

void dlk_redis_pipe_submit(struct dlk_redis_pipe *p, struct dlk_redis_req *r) {
  r->got = 0;
  dlk_list_append(&p->waiting, &r->entry);
}

bool dlk_redis_pipe_withdraw(struct dlk_redis_pipe *p,
                             struct dlk_redis_req *r) {
  for (struct dlk_list *l = p->waiting.next; l != &p->waiting; l = l->next) {
    if (l != &r->entry)
      continue;
    dlk_list_remove(l);
    return true;
  }
  return false;
}

void dlk_redis_pipe_write(struct dlk_redis_pipe *p, struct dlk_redis_req *r,
                          int64_t at) {
  r->got = 0;
  dlk_list_append(&p->flying, &r->entry);
  r->sent = at;
  r->encode(r, p->out);
}

bool dlk_redis_pipe_write_waiting(struct dlk_redis_pipe *p, int64_t at) {
  bool durable = false;
  while (!dlk_list_empty(&p->waiting)) {
    struct dlk_redis_req *r = first(&p->waiting);
    dlk_list_remove(&r->entry);
    dlk_redis_pipe_write(p, r, at);
    durable = durable || r->durable;
  }
  return durable;
}

bool dlk_redis_pipe_has_only_once(const struct dlk_redis_pipe *p) {
  for (const struct dlk_list *l = &p->waiting; l->next != &p->waiting;
       l = l->next)
    if (first(l)->only_once)
      return true;
  return false;
}

struct dlk_redis_req *dlk_redis_pipe_oldest(const struct dlk_redis_pipe *p) {
  return dlk_list_empty(&p->flying) ? NULL : first(&p->flying);
}

void dlk_redis_pipe_feed(struct dlk_redis_pipe *p, const char *bytes,
                         size_t n) {
  p->in = bytes;
  p->in_len = n;
}

static bool is_between(const struct dlk_redis_pipe *p) {
  return p->scan.type == 0 && p->scan.depth == 0;
}

/* The reader has the rest of its reply first. A short reply lives until the
 * next one, so it is not used if answers may be kept. */
bool dlk_redis_pipe_next(struct dlk_redis_pipe *p, void **reply) {
  *reply = NULL;
  size_t n = 0;
  if (p->in_len > 0 && is_between(p) && !p->replicas)
    n = dlk_redis_brief_read(&p->brief, p->in, p->in_len);
  if (n > 0) {
    p->in += n;
    p->in_len -= n;
    *reply = &p->brief.replies[0];
    return true;
  }
  size_t rest = p->in_len;
  p->in_len = 0;
  if (rest > 0 && (!dlk_redis_scan(&p->scan, p->in, rest) ||
                   redisReaderFeed(p->reader, p->in, rest) != REDIS_OK))
    return false;
  return redisReaderGetReply(p->reader, reply) == REDIS_OK;
}

void dlk_redis_pipe_drop(struct dlk_redis_pipe *p, void *reply) {
  if (reply != &p->brief.replies[0])
    freeReplyObject(reply);
}

bool dlk_redis_pipe_starved(const struct dlk_redis_pipe *p) {
  return p->reader && p->reader->err == REDIS_ERR_OOM;
}

bool dlk_redis_pipe_answer(struct dlk_redis_pipe *p, redisReply *reply,
                           bool *kept) {
  struct dlk_redis_req *r = dlk_redis_pipe_oldest(p);
  *kept = false;
  if (!r)
    return false;
  bool error = reply->type == REDIS_REPLY_ERROR;
  if (r->each)
    r->each(r, r->got, reply);
  if (error && !p->refused[0]) /* an error without a text is one, too */
    snprintf(p->refused, sizeof p->refused, "%s",
             reply->str[0] ? reply->str : "ERR");
  r->secret = r->secret && p->refused[0]; /* AUTH goes first */
  if (++r->got < r->replies)
    return true;
  dlk_list_remove(&r->entry);
  if (p->replicas && r->durable && !p->refused[0]) {
    *kept = true;
    r->kept = reply;
    dlk_list_append(&p->settling, &r->entry);
    return true;
  }
  char refusal[sizeof p->refused];
  memcpy(refusal, p->refused, sizeof refusal);
  p->refused[0] = '\0';
  struct dlk_redis_answer a = {.outcome = DLK_REDIS_ANSWERED,
                               .reply = error ? NULL : reply,
                               .refusal = refusal[0] ? refusal : NULL};
  r->done(r, &a);
  return true;
}

/* ---- replicas ---- */

static redisReply *take_kept(struct dlk_redis_req *r) {
  redisReply *reply = r->kept;
  r->kept = NULL;
  return reply;
}

void dlk_redis_pipe_settle(struct dlk_redis_pipe *p, unsigned have,
                           unsigned wanted) {
  struct dlk_list list;
  struct dlk_redis_answer a = {.outcome = DLK_REDIS_ANSWERED,
                               .scarce = have < wanted,
                               .have = have,
                               .wanted = wanted};
  dlk_list_take(&p->settling, &list);
  while (!dlk_list_empty(&list)) {
    struct dlk_redis_req *r = first(&list);
    dlk_list_remove(&r->entry);
    redisReply *reply = take_kept(r);
    a.reply = reply;
    r->done(r, &a);
    freeReplyObject(reply);
  }
}

void dlk_redis_pipe_unsettled(struct dlk_redis_pipe *p,
                              const struct dlk_error *why) {
  struct dlk_list list;
  dlk_list_take(&p->settling, &list);
  dlk_redis_pipe_end(&list, DLK_REDIS_UNKNOWN, why);
}

void dlk_redis_pipe_take(struct dlk_redis_pipe *p, struct dlk_list *to) {
  dlk_list_take(&p->settling, to);
  while (!dlk_list_empty(&p->flying)) {
    struct dlk_list *l = p->flying.next;
    dlk_list_remove(l);
    dlk_list_append(to, l);
  }
}

void dlk_redis_pipe_end(struct dlk_list *l, enum dlk_redis_outcome outcome,
                        const struct dlk_error *why) {
  struct dlk_redis_answer a = {.outcome = outcome, .err = why};
  while (!dlk_list_empty(l)) {
    struct dlk_redis_req *r = first(l);
    dlk_list_remove(&r->entry);
    freeReplyObject(take_kept(r)); /* NULL as a rule */
    r->done(r, &a);
  }
}

void dlk_redis_pipe_forget(struct dlk_redis_pipe *p) {
  while (!dlk_list_empty(&p->flying)) {
    struct dlk_redis_req *r = first(&p->flying);
    dlk_list_remove(&r->entry);
  }
}
