/* Values of a reply of any shape. */
#ifndef DLK_STORE_REDIS_WIRE_REPLY_H
#define DLK_STORE_REDIS_WIRE_REPLY_H

#include <stddef.h>
#include <stdint.h>

struct redisReply;

/* The i-th element; a nil if there is none. */
const struct redisReply *dlk_redis_at(const struct redisReply *reply, size_t i);
/* The i-th integer of an array, or `none`. */
int64_t dlk_redis_int(const struct redisReply *reply, size_t i, int64_t none);
/* The integer, or an array's first one, or `none`. */
int64_t dlk_redis_number(const struct redisReply *reply, int64_t none);
/* An array's first string, or "". */
const char *dlk_redis_word(const struct redisReply *reply);

#endif
