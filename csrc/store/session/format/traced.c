/* A contender's name has its token in it, so of 16 or more hex digits in a path
 * the trace shows the last four. A long path loses its middle: its end tells
 * the owner. */
#include "store/session/format/traced.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LONG 16
#define LAST 4
#define HALF 40

struct shown {
  char head[HALF], tail[HALF];
  size_t len;
};

/* Keeps the first and the last HALF bytes. */
static void put(struct shown *s, const char *bytes, size_t n) {
  for (size_t i = 0; i < n; i++, s->len++) {
    if (s->len < HALF)
      s->head[s->len] = bytes[i];
    s->tail[s->len % HALF] = bytes[i];
  }
}

static size_t hex_digits(const char *p) {
  size_t n = 0;
  while (isxdigit((unsigned char)p[n]))
    n++;
  return n;
}

static void put_path(struct shown *s, const char *path) {
  while (*path) {
    size_t n = hex_digits(path);
    if (n >= LONG) {
      put(s, "..", 2);
      put(s, path + n - LAST, LAST);
    } else {
      n = n ? n : 1;
      put(s, path, n);
    }
    path += n;
  }
}

static size_t join(const struct shown *s, char out[2 * HALF + 3]) {
  size_t n = s->len < HALF ? s->len : HALF;
  size_t rest = s->len - n;
  memcpy(out, s->head, n);
  if (rest > HALF) {
    memcpy(out + n, "...", 3);
    n += 3;
    rest = HALF;
  }
  for (size_t i = s->len - rest; i < s->len; i++)
    out[n++] = s->tail[i % HALF];
  return n;
}

void dlk_ss_trace(const char *room, int64_t now, const char *event,
                  const char *path, const char *fmt, ...) {
  struct shown s = {.len = 0};
  char shown[2 * HALF + 3], text[160];
  put_path(&s, path ? path : "");
  size_t n = join(&s, shown);
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  dlk_trace_line(now, room, event, shown, n, "%s", text);
}
