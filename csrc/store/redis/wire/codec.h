/* RESP2: commands out, and a check of replies before hiredis reads them. */
#ifndef DLK_STORE_REDIS_WIRE_CODEC_H
#define DLK_STORE_REDIS_WIRE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "store/redis/wire/names.h"

void dlk_redis_put_array(struct dlk_buf *out, size_t count);
void dlk_redis_put(struct dlk_buf *out, const char *p, size_t len);
void dlk_redis_put_text(struct dlk_buf *out, const char *text);
/* A whole command; NULL ends the words. */
void dlk_redis_put_words(struct dlk_buf *out, const char *word, ...)
    __attribute__((sentinel));
void dlk_redis_put_int(struct dlk_buf *out, int64_t n);
void dlk_redis_put_name(struct dlk_buf *out, const struct dlk_redis_name *name,
                        enum dlk_redis_part part);

#define DLK_REDIS_DEPTH 6
#define DLK_REDIS_REPLY_MAX (32u << 20)
#define DLK_REDIS_ELEMENTS_MAX (1u << 20)

/* Zero it for a new connection. */
struct dlk_redis_scan {
  char type; /* of the current line; 0 between lines */
  bool negative, digits, ending;
  unsigned depth;
  uint32_t left[DLK_REDIS_DEPTH]; /* elements to come, per level */
  uint32_t elements;
  uint64_t number; /* of the current line */
  size_t skip;     /* bytes to come of a bulk string */
  size_t bytes;    /* of the current reply */
};

/* False: the bytes are not RESP2, or larger or deeper than any reply of
 * ours. */
bool dlk_redis_scan(struct dlk_redis_scan *s, const char *p, size_t n);

#endif
