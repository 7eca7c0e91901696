/* The Redis protocol, outgoing (formatting into a buffer) and incoming (a
 * check that runs before hiredis' reader sees the bytes). */
#ifndef DLK_STORE_REDIS_WIRE_CODEC_H
#define DLK_STORE_REDIS_WIRE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "store/redis/wire/names.h"

/* A command is an array of that many arguments. */
void dlk_redis_put_array(struct dlk_buf *out, size_t count);
void dlk_redis_put(struct dlk_buf *out, const char *p, size_t len);
void dlk_redis_put_text(struct dlk_buf *out, const char *text);
void dlk_redis_put_int(struct dlk_buf *out, int64_t n);
void dlk_redis_put_name(struct dlk_buf *out, const struct dlk_redis_name *name,
                        enum dlk_redis_part part);

#define DLK_REDIS_DEPTH 6
#define DLK_REDIS_REPLY_MAX (32u << 20)
#define DLK_REDIS_ELEMENTS_MAX (1u << 20)

/* Follows the stream of replies. Zero it for a new connection. */
struct dlk_redis_scan {
  char type; /* of the line under way; 0 between lines */
  bool negative, digits, ending;
  unsigned depth;
  uint32_t left[DLK_REDIS_DEPTH]; /* elements still to come, per level */
  uint32_t elements;
  uint64_t number; /* what the line says */
  size_t skip;     /* bytes of a bulk string still to come */
  size_t bytes;    /* of the reply under way */
};

/* False: not RESP2, or larger or deeper than anything we ask for; the
 * connection cannot be used any more. */
bool dlk_redis_scan(struct dlk_redis_scan *s, const char *p, size_t n);

#endif
