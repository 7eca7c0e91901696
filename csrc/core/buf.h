/* A byte buffer that grows. A failed allocation sets `failed` and later
 * appends do nothing, so that a caller checks once, at the end. */
#ifndef DLK_CORE_BUF_H
#define DLK_CORE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct dlk_buf {
  char *data;
  size_t len, cap;
  bool failed;
};

/* A zeroed struct is an empty buffer. */
void dlk_buf_free(struct dlk_buf *b);
void dlk_buf_clear(struct dlk_buf *b); /* len = 0, failed = false */
/* Room for n more bytes at data + len; NULL when out of memory. */
char *dlk_buf_reserve(struct dlk_buf *b, size_t n);
void dlk_buf_add(struct dlk_buf *b, const void *p, size_t n);
void dlk_buf_addf(struct dlk_buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Drops the first n bytes. */
void dlk_buf_shift(struct dlk_buf *b, size_t n);

#endif
