/* Replies that are read without hiredis: see brief.c. */
#ifndef DLK_STORE_REDIS_WIRE_BRIEF_H
#define DLK_STORE_REDIS_WIRE_BRIEF_H

#include <hiredis/hiredis.h>
#include <stddef.h>

#define DLK_REDIS_BRIEF_ELEMENTS 8
#define DLK_REDIS_BRIEF_TEXT 512

/* Room for one reply: the first of `replies`, with its elements behind it. */
struct dlk_redis_brief {
  redisReply replies[1 + DLK_REDIS_BRIEF_ELEMENTS];
  redisReply *elements[DLK_REDIS_BRIEF_ELEMENTS];
  size_t used; /* of the text */
  char text[DLK_REDIS_BRIEF_TEXT];
};

/* Reads the reply that begins at p, if it is brief and all of it is there;
 * returns its length. 0: it is not so, which says nothing of what it is. */
size_t dlk_redis_brief_read(struct dlk_redis_brief *b, const char *p, size_t n);

#endif
