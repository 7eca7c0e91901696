/* A byte buffer that grows. A failed allocation sets `failed` and later appends
 * do nothing, so that a caller checks once, at the end. */
#ifndef DLK_CORE_BUF_H
#define DLK_CORE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct dlk_buf {
  char *data;
  size_t len, cap;
  bool failed;
};

/* A zeroed struct is an empty buffer. */
void dlk_buf_free(struct dlk_buf *b);
/* Overwrites the bytes first. A grow leaves the old block as it was: reserve
 * room for a whole secret before. */
void dlk_buf_wipe(struct dlk_buf *b);
void dlk_buf_clear(struct dlk_buf *b);
char *dlk_buf_grow(struct dlk_buf *b, size_t n);

/* Room for n more bytes; NULL when out of memory. */
static inline char *dlk_buf_reserve(struct dlk_buf *b, size_t n) {
  if (b->data && b->cap - b->len >= n && !b->failed)
    return b->data + b->len;
  return dlk_buf_grow(b, n);
}

static inline void dlk_buf_add(struct dlk_buf *b, const void *p, size_t n) {
  char *to = n == 0 ? NULL : dlk_buf_reserve(b, n);
  if (!to)
    return;
  memcpy(to, p, n);
  b->len += n;
}

void dlk_buf_addf(struct dlk_buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Moves the rest down: O(len). */
void dlk_buf_shift(struct dlk_buf *b, size_t n);

#endif
