/* A reader of short replies without hiredis. */
#ifndef DLK_STORE_REDIS_WIRE_BRIEF_H
#define DLK_STORE_REDIS_WIRE_BRIEF_H

#include <hiredis/hiredis.h>
#include <stddef.h>

#define DLK_REDIS_BRIEF_ELEMENTS 8
#define DLK_REDIS_BRIEF_TEXT 512

/* One reply: the first of `replies`, with its elements behind it. */
struct dlk_redis_brief {
  redisReply replies[1 + DLK_REDIS_BRIEF_ELEMENTS];
  redisReply *elements[DLK_REDIS_BRIEF_ELEMENTS];
  size_t used;
  char text[DLK_REDIS_BRIEF_TEXT];
};

/* Returns the length of the reply at p. 0: it is not short, or incomplete. */
size_t dlk_redis_brief_read(struct dlk_redis_brief *b, const char *p, size_t n);

#endif
