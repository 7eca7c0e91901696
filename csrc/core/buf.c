/* A byte buffer that grows and remembers a failed allocation. */
#include "core/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dlk_buf_free(struct dlk_buf *b) {
  free(b->data);
  memset(b, 0, sizeof *b);
}

void dlk_buf_wipe(struct dlk_buf *b) {
  if (b->data)
    explicit_bzero(b->data, b->cap);
  dlk_buf_free(b);
}

void dlk_buf_clear(struct dlk_buf *b) {
  b->len = 0;
  b->failed = false;
}

char *dlk_buf_grow(struct dlk_buf *b, size_t n) {
  if (b->failed)
    return NULL;
  if (n > SIZE_MAX / 2 - b->len) {
    b->failed = true;
    return NULL;
  }
  size_t cap = b->cap ? b->cap : 256;
  while (cap < b->len + n)
    cap *= 2;
  char *data = realloc(b->data, cap);
  if (!data) {
    b->failed = true;
    return NULL;
  }
  b->data = data;
  b->cap = cap;
  return data + b->len;
}

void dlk_buf_addf(struct dlk_buf *b, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  char small[128];
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(small, sizeof small, fmt, ap);
  va_end(ap);
  if (n < 0) {
    b->failed = true;
  } else if ((size_t)n < sizeof small) {
    dlk_buf_add(b, small, (size_t)n);
  } else {
    char *to = dlk_buf_reserve(b, (size_t)n + 1);
    if (to) {
      vsnprintf(to, (size_t)n + 1, fmt, again);
      b->len += (size_t)n;
    }
  }
  va_end(again);
}

void dlk_buf_shift(struct dlk_buf *b, size_t n) {
  if (n == 0)
    return;
  memmove(b->data, b->data + n, b->len - n);
  b->len -= n;
}
