/* Protocol Buffers on the wire, as far as etcd's messages need them. */
#ifndef DLK_STORE_SESSION_ETCD_WIRE_PROTO_H
#define DLK_STORE_SESSION_ETCD_WIRE_PROTO_H

#include <stdint.h>

#include "core/buf.h"

/* Appends a field; a 0 is left out, as proto3 has it. */
void dlk_pb_int(struct dlk_buf *b, unsigned field, int64_t value);
void dlk_pb_bytes(struct dlk_buf *b, unsigned field, const void *p, size_t n);
/* A message in a field: what is appended between open and close. */
size_t dlk_pb_open(struct dlk_buf *b, unsigned field);
void dlk_pb_close(struct dlk_buf *b, size_t mark);

/* What is left to read of a message. */
struct dlk_pb {
  const char *at, *end;
  bool bad; /* it is no message */
};

struct dlk_pb_field {
  unsigned number;
  int64_t value;     /* a number's */
  const char *bytes; /* NULL: a number */
  size_t len;
};

static inline struct dlk_pb dlk_pb_of(const char *p, size_t n) {
  return (struct dlk_pb){p, p + n, false};
}

/* False: the end, or bad. */
bool dlk_pb_next(struct dlk_pb *r, struct dlk_pb_field *f);

#endif
