/* A proxy may send any RESP2, so each function checks the types that it
 * reads. */
#include "store/redis/wire/reply.h"

#include <hiredis/hiredis.h>
#include <stdbool.h>

const redisReply *dlk_redis_at(const redisReply *reply, size_t i) {
  static const redisReply none = {.type = REDIS_REPLY_NIL};
  bool there = reply->type == REDIS_REPLY_ARRAY && i < reply->elements;
  return there ? reply->element[i] : &none;
}

int64_t dlk_redis_int(const redisReply *reply, size_t i, int64_t none) {
  const redisReply *n = reply ? dlk_redis_at(reply, i) : NULL;
  return n && n->type == REDIS_REPLY_INTEGER ? n->integer : none;
}

int64_t dlk_redis_number(const redisReply *reply, int64_t none) {
  if (reply->type == REDIS_REPLY_ARRAY)
    return dlk_redis_int(reply, 0, none);
  return reply->type == REDIS_REPLY_INTEGER ? reply->integer : none;
}

const char *dlk_redis_word(const redisReply *reply) {
  const redisReply *word = dlk_redis_at(reply, 0);
  return word->type == REDIS_REPLY_STRING ? word->str : "";
}
