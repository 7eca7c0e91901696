/* A field is a varint of number and type, then a varint, or a length and bytes.
 * Fixed numbers of 4 and 8 bytes are passed over; groups are refused. */
#include "store/session/etcd/wire/proto.h"

enum { VARINT, FIXED_8, BYTES, FIXED_4 = 5 };

static size_t varint(char out[10], uint64_t v) {
  size_t n = 0;
  for (; v > 0x7f; v >>= 7)
    out[n++] = (char)(0x80 | (v & 0x7f));
  out[n++] = (char)v;
  return n;
}

static void put(struct dlk_buf *b, uint64_t v) {
  char bytes[10];
  dlk_buf_add(b, bytes, varint(bytes, v));
}

void dlk_pb_int(struct dlk_buf *b, unsigned field, int64_t value) {
  if (value == 0)
    return;
  put(b, field << 3 | VARINT);
  put(b, (uint64_t)value);
}

void dlk_pb_bytes(struct dlk_buf *b, unsigned field, const void *p, size_t n) {
  put(b, field << 3 | BYTES);
  put(b, n);
  dlk_buf_add(b, p, n);
}

size_t dlk_pb_open(struct dlk_buf *b, unsigned field) {
  put(b, field << 3 | BYTES);
  return b->len;
}

void dlk_pb_close(struct dlk_buf *b, size_t mark) {
  char bytes[10];
  size_t len = b->len - mark, n = varint(bytes, len);
  if (!dlk_buf_reserve(b, n))
    return;
  memmove(b->data + mark + n, b->data + mark, len);
  memcpy(b->data + mark, bytes, n);
  b->len += n;
}

static bool get(struct dlk_pb *r, uint64_t *v) {
  *v = 0;
  for (unsigned shift = 0; shift < 64 && r->at < r->end; shift += 7) {
    unsigned char c = (unsigned char)*r->at++;
    *v |= (uint64_t)(c & 0x7f) << shift;
    if (c < 0x80)
      return true;
  }
  r->bad = true;
  return false;
}

static bool take(struct dlk_pb *r, uint64_t n, struct dlk_pb_field *f) {
  if (n > (uint64_t)(r->end - r->at)) {
    r->bad = true;
    return false;
  }
  f->bytes = r->at;
  f->len = (size_t)n;
  r->at += n;
  return true;
}

bool dlk_pb_next(struct dlk_pb *r, struct dlk_pb_field *f) {
  uint64_t tag, v;
  *f = (struct dlk_pb_field){0};
  if (r->bad || r->at == r->end || !get(r, &tag))
    return false;
  f->number = tag >> 3 > 1 << 29 ? 0 : (unsigned)(tag >> 3);
  switch (tag & 7) {
  case VARINT:
    if (!get(r, &v))
      return false;
    f->value = (int64_t)v;
    return true;
  case BYTES:
    return get(r, &v) && take(r, v, f);
  case FIXED_8:
  case FIXED_4:
    f->number = 0; /* none of etcd's */
    return take(r, (tag & 7) == FIXED_8 ? 8 : 4, f);
  default:
    r->bad = true;
    return false;
  }
}
