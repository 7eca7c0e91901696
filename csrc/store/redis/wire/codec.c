/* hiredis' reader trusts the server: 0.14 allocates what a header asks for (an
 * array of 2^31 elements), 1.x knows types that we never ask for. So a scan
 * checks each byte first. */
#include "store/redis/wire/codec.h"

#include <stdarg.h>
#include <string.h>

/* Writes the decimal digits of n before `end` and returns their begin. */
static char *digits(char *end, uint64_t n) {
  do {
    *--end = (char)('0' + n % 10);
    n /= 10;
  } while (n);
  return end;
}

#define HEADER 24 /* a type, the digits of a number, a line's end */

static char *end_line(char *to) {
  to[0] = '\r';
  to[1] = '\n';
  return to + 2;
}

/* Returns its end. */
static char *header(char *to, char type, size_t n) {
  *to++ = type;
  if (n < 100) {
    if (n >= 10)
      *to++ = (char)('0' + n / 10);
    *to++ = (char)('0' + n % 10);
    return end_line(to);
  }
  char text[HEADER], *end = text + sizeof text;
  char *begin = digits(end, n);
  size_t len = (size_t)(end - begin);
  memcpy(to, begin, len);
  return end_line(to + len);
}

void dlk_redis_put_array(struct dlk_buf *out, size_t count) {
  char *to = dlk_buf_reserve(out, HEADER);
  if (to)
    out->len += (size_t)(header(to, '*', count) - to);
}

/* Begins an argument. NULL: out of memory. */
static char *argument(struct dlk_buf *out, size_t len) {
  char *to = dlk_buf_reserve(out, HEADER + len + 2);
  return to ? header(to, '$', len) : NULL;
}

static void end_argument(struct dlk_buf *out, char *at) {
  out->len = (size_t)(end_line(at) - out->data);
}

void dlk_redis_put(struct dlk_buf *out, const char *p, size_t len) {
  char *to = argument(out, len);
  if (!to)
    return;
  if (len > 0)
    memcpy(to, p, len);
  end_argument(out, to + len);
}

void dlk_redis_put_text(struct dlk_buf *out, const char *text) {
  dlk_redis_put(out, text, strlen(text));
}

void dlk_redis_put_words(struct dlk_buf *out, const char *word, ...) {
  va_list words, again;
  size_t count = 1;
  va_start(words, word);
  va_copy(again, words);
  while (va_arg(again, const char *))
    count++;
  va_end(again);
  dlk_redis_put_array(out, count);
  for (; word; word = va_arg(words, const char *))
    dlk_redis_put_text(out, word);
  va_end(words);
}

void dlk_redis_put_int(struct dlk_buf *out, int64_t n) {
  char text[24], *end = text + sizeof text;
  uint64_t u = n < 0 ? (uint64_t)0 - (uint64_t)n : (uint64_t)n;
  char *begin = digits(end, u);
  if (n < 0)
    *--begin = '-';
  dlk_redis_put(out, begin, (size_t)(end - begin));
}

void dlk_redis_put_name(struct dlk_buf *out, const struct dlk_redis_name *name,
                        enum dlk_redis_part part) {
  size_t len = dlk_redis_name_len(name, part);
  char *to = argument(out, len);
  if (!to)
    return;
  dlk_redis_name_write(name, part, to);
  end_argument(out, to + len);
}

/* One element is complete, and so may be the arrays around it. */
static void complete(struct dlk_redis_scan *s) {
  s->type = 0;
  while (s->depth && --s->left[s->depth - 1] == 0)
    s->depth--;
  if (!s->depth)
    s->bytes = s->elements = 0;
}

static bool open_array(struct dlk_redis_scan *s) {
  if (s->negative || s->number == 0) {
    complete(s);
    return true;
  }
  if (s->number > DLK_REDIS_ELEMENTS_MAX - s->elements)
    return false;
  if (s->depth == DLK_REDIS_DEPTH)
    return false;
  s->elements += (uint32_t)s->number;
  s->left[s->depth++] = (uint32_t)s->number;
  s->type = 0;
  return true;
}

/* Returns the length of the status or error text at p. */
static size_t free_text(const char *p, size_t n) {
  const char *end = memchr(p, '\r', n);
  if (end)
    n = (size_t)(end - p);
  return memchr(p, '\n', n) ? 0 : n;
}

static bool is_text(const struct dlk_redis_scan *s) {
  return s->type == '+' || s->type == '-';
}

/* Adds the digits at p to the number and returns their count. */
static size_t number_text(struct dlk_redis_scan *s, const char *p, size_t n) {
  size_t i = 0;
  for (; i < n && p[i] >= '0' && p[i] <= '9'; i++) {
    if (s->number > UINT64_MAX / 10 - 1)
      break;
    s->number = s->number * 10 + (uint64_t)(p[i] - '0');
  }
  s->digits = s->digits || i > 0;
  return i;
}

static bool line_done(struct dlk_redis_scan *s) {
  s->ending = false;
  if (is_text(s)) {
    complete(s);
    return true;
  }
  if (!s->digits)
    return false;
  if (s->type != ':' && s->negative && s->number != 1)
    return false;
  if (s->type == '*')
    return open_array(s);
  if (s->type == '$' && !s->negative) {
    if (s->number > DLK_REDIS_REPLY_MAX)
      return false;
    s->skip = (size_t)s->number + 2;
    return true;
  }
  complete(s);
  return true;
}

static bool line_byte(struct dlk_redis_scan *s, char c) {
  if (s->ending)
    return c == '\n' && line_done(s);
  if (c == '\r') {
    s->ending = true;
    return true;
  }
  if (c == '\n')
    return false;
  /* free_text and number_text have taken the other bytes. */
  bool minus = c == '-' && !s->digits && !s->negative && !is_text(s);
  s->negative = s->negative || minus;
  return minus;
}

static bool begin(struct dlk_redis_scan *s, char c) {
  if (!memchr("+-:$*", c, 5))
    return false;
  s->type = c;
  s->negative = s->digits = false;
  s->number = 0;
  return true;
}

bool dlk_redis_scan(struct dlk_redis_scan *s, const char *p, size_t n) {
  const char *end = p + n;
  while (p < end) {
    if (s->skip) {
      size_t step = (size_t)(end - p) < s->skip ? (size_t)(end - p) : s->skip;
      p += step;
      s->skip -= step;
      s->bytes += step;
      if (s->bytes > DLK_REDIS_REPLY_MAX)
        return false;
      if (!s->skip)
        complete(s);
      continue;
    }
    if (s->type && !s->ending) {
      size_t left = (size_t)(end - p);
      size_t step = is_text(s) ? free_text(p, left) : number_text(s, p, left);
      p += step;
      s->bytes += step;
      if (p == end)
        break;
    }
    if (++s->bytes > DLK_REDIS_REPLY_MAX)
      return false;
    if (!(s->type ? line_byte(s, *p) : begin(s, *p)))
      return false;
    p++;
  }
  return true;
}
