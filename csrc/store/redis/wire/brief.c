/* Short replies are read in one pass, without an allocation. All others (long,
 * nested, errors, incomplete, wrong) go from their first byte to codec.c and
 * hiredis.
 *
 * I1  Both ways give the same redisReply for the same bytes
 *     (spec/fuzz/redis_codec.c). This reader may refuse any reply. */
#include "store/redis/wire/brief.h"

#include <stdbool.h>
#include <string.h>

#define DIGITS 18 /* so many digits always fit */

struct cursor {
  const char *at, *end;
};

static bool ends_line(const struct cursor *c) {
  return c->end - c->at >= 2 && c->at[0] == '\r' && c->at[1] == '\n';
}

/* Reads past the line's end. */
static bool number(struct cursor *c, long long *out) {
  const char *first = c->at;
  bool minus = c->at < c->end && *c->at == '-';
  long long n = 0;
  first += minus;
  for (c->at = first; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
    if (c->at - first < DIGITS)
      n = n * 10 + (*c->at - '0');
  /* hiredis refuses some leading zeros. */
  bool fine = c->at > first && c->at - first <= DIGITS &&
              (*first != '0' || (c->at - first == 1 && !minus));
  if (!fine || !ends_line(c))
    return false;
  c->at += 2;
  *out = minus ? -n : n;
  return true;
}

static bool text(struct dlk_redis_brief *b, struct cursor *c, redisReply *r,
                 size_t len) {
  if (len >= sizeof b->text - b->used || (size_t)(c->end - c->at) < len)
    return false;
  r->str = b->text + b->used;
  r->len = len;
  memcpy(r->str, c->at, len);
  r->str[len] = '\0';
  b->used += len + 1;
  c->at += len;
  if (!ends_line(c))
    return false;
  c->at += 2;
  return true;
}

static bool status(struct dlk_redis_brief *b, struct cursor *c, redisReply *r) {
  const char *at = c->at;
  while (at < c->end && *at != '\r' && *at != '\n')
    at++;
  r->type = REDIS_REPLY_STATUS;
  return text(b, c, r, (size_t)(at - c->at));
}

static bool string(struct dlk_redis_brief *b, struct cursor *c, redisReply *r) {
  long long len;
  if (!number(c, &len) || len < -1 || len >= DLK_REDIS_BRIEF_TEXT)
    return false;
  r->type = len < 0 ? REDIS_REPLY_NIL : REDIS_REPLY_STRING;
  return len < 0 || text(b, c, r, (size_t)len);
}

/* Any type but an array. */
static bool single(struct dlk_redis_brief *b, struct cursor *c, redisReply *r) {
  memset(r, 0, sizeof *r);
  if (c->at == c->end)
    return false;
  switch (*c->at++) {
  case '+':
    return status(b, c, r);
  case ':':
    r->type = REDIS_REPLY_INTEGER;
    return number(c, &r->integer);
  case '$':
    return string(b, c, r);
  default:
    return false;
  }
}

static bool array(struct dlk_redis_brief *b, struct cursor *c) {
  redisReply *r = &b->replies[0];
  long long count;
  memset(r, 0, sizeof *r);
  c->at++;
  if (!number(c, &count) || count < 1 || count > DLK_REDIS_BRIEF_ELEMENTS)
    return false;
  r->type = REDIS_REPLY_ARRAY;
  r->elements = (size_t)count;
  r->element = b->elements;
  for (long long i = 0; i < count; i++) {
    b->elements[i] = r + 1 + i;
    if (!single(b, c, b->elements[i]))
      return false;
  }
  return true;
}

size_t dlk_redis_brief_read(struct dlk_redis_brief *b, const char *p,
                            size_t n) {
  struct cursor c = {p, p + n};
  if (n == 0)
    return 0;
  b->used = 0;
  bool read = *p == '*' ? array(b, &c) : single(b, &c, &b->replies[0]);
  return read ? (size_t)(c.at - p) : 0;
}
