/* A contender's name has its token in it, so of 16 or more hex digits in a path
 * the trace shows the last four. A long path loses its middle: its end tells
 * the owner. */
#include "store/session/format/traced.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/buf.h"

#define LONG 16
#define HALF 40

void dlk_ss_trace(const char *room, int64_t now, const char *event,
                  const char *path, const char *fmt, ...) {
  struct dlk_buf shown = {0};
  char text[160];
  for (size_t n; path && *path; path += n) {
    size_t hex = strspn(path, "0123456789abcdefABCDEF");
    n = hex > 0 ? hex : 1;
    if (hex >= LONG)
      dlk_buf_addf(&shown, "..%.4s", path + hex - 4);
    else
      dlk_buf_add(&shown, path, n);
  }
  if (shown.len > (size_t)2 * HALF && dlk_buf_reserve(&shown, 3)) {
    memmove(shown.data + HALF + 3, shown.data + shown.len - HALF, HALF);
    memcpy(shown.data + HALF, "...", 3);
    shown.len = (size_t)2 * HALF + 3;
  }
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  dlk_trace_line(now, room, event, shown.data ? shown.data : "", shown.len,
                 "%s", text);
  dlk_buf_free(&shown);
}
