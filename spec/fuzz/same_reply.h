/* Whether two replies say the same, and whether what is read without hiredis
 * is what hiredis reads: for the fuzzer and for spec/c/redis_conn_test.c. */
#ifndef SPEC_FUZZ_SAME_REPLY_H
#define SPEC_FUZZ_SAME_REPLY_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <string.h>

#include "store/redis/wire/brief.h"
#include "store/redis/wire/codec.h"

static inline bool same_reply(const redisReply *a, const redisReply *b) {
  if (a->type != b->type)
    return false;
  if (a->type == REDIS_REPLY_INTEGER)
    return a->integer == b->integer;
  if (a->type == REDIS_REPLY_STRING || a->type == REDIS_REPLY_STATUS)
    return a->len == b->len && memcmp(a->str, b->str, a->len + 1) == 0;
  if (a->type != REDIS_REPLY_ARRAY)
    return a->type == REDIS_REPLY_NIL;
  if (a->elements != b->elements)
    return false;
  for (size_t i = 0; i < a->elements; i++)
    if (!same_reply(a->element[i], b->element[i]))
      return false;
  return true;
}

/* What is brief at p passes the check, and hiredis reads the same, and not
 * before its last byte. brief: whether there is such a thing. */
static inline bool brief_is_right(const char *p, size_t n, bool *brief) {
  static struct dlk_redis_brief b;
  struct dlk_redis_scan s = {0};
  size_t len = dlk_redis_brief_read(&b, p, n);
  void *reply = NULL, *early = NULL;
  *brief = len > 0;
  if (len == 0)
    return true;
  if (len > n || !dlk_redis_scan(&s, p, len) || s.type || s.depth)
    return false;
  redisReader *reader = redisReaderCreate();
  bool fine = redisReaderFeed(reader, p, len - 1) == REDIS_OK &&
              redisReaderGetReply(reader, &early) == REDIS_OK && !early &&
              redisReaderFeed(reader, p + len - 1, 1) == REDIS_OK &&
              redisReaderGetReply(reader, &reply) == REDIS_OK && reply &&
              same_reply(&b.replies[0], reply);
  if (reply)
    freeReplyObject(reply);
  if (early)
    freeReplyObject(early);
  redisReaderFree(reader);
  return fine;
}

#endif
