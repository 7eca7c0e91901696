/* gRPC calls on one connection (net/conn.h), over HTTP/2. */
#ifndef DLK_STORE_SESSION_ETCD_CONN_GRPC_H
#define DLK_STORE_SESSION_ETCD_CONN_GRPC_H

#include "net/conn.h"
#include "store/session/etcd/wire/messages.h"

struct nghttp2_session;
struct dlk_grpc;

/* gRPC's status codes, as far as they differ to us. */
enum dlk_grpc_status {
  DLK_GRPC_OK = 0,
  DLK_GRPC_INVALID = 3,
  DLK_GRPC_NOT_FOUND = 5,
  DLK_GRPC_DENIED = 7,
  DLK_GRPC_EXHAUSTED = 8,
  DLK_GRPC_FAILED_PRECONDITION = 9,
  DLK_GRPC_OUT_OF_RANGE = 11,
  DLK_GRPC_UNAVAILABLE = 14
};

#define DLK_GRPC_TEXT 120

/* A call: one message there and one back, or (`streams`) many both ways. Its
 * memory is the owner's and outlives it. */
struct dlk_grpc_call {
  struct dlk_list link;
  struct dlk_grpc *on, *owner; /* on: NULL unless under way */
  const char *method;          /* "KV/Txn" */
  bool streams;
  /* In the loop: it is over, or (a stream) has a message. Might end the
   * connection. */
  void (*told)(struct dlk_grpc_call *c);
  struct dlk_buf out, in;
  size_t out_at, in_at;
  int32_t stream;
  bool over; /* `status` says how */
  bool news; /* to be told */
  int status;
  char text[DLK_GRPC_TEXT]; /* the server's words, printable */
  int64_t sent;             /* before its bytes were made */
};

struct dlk_grpc_events {
  /* Sends the handshake's calls; the last of them calls dlk_net_conn_ready.
   * False: no memory. */
  bool (*greet)(struct dlk_grpc *g);
  void (*broken)(struct dlk_grpc *g, const struct dlk_error *why);
  void (*failed)(struct dlk_grpc *g, const struct dlk_error *why);
  bool (*waits)(const struct dlk_grpc *g);
  /* When the oldest unanswered request was sent, or -1. */
  int64_t (*oldest)(const struct dlk_grpc *g);
};

struct dlk_grpc {
  struct dlk_net_conn net; /* first */
  const struct dlk_grpc_events *events;
  struct nghttp2_session *h2;
  struct dlk_list calls; /* under way */
  struct dlk_buf token;  /* of a user, NUL-ended */
  bool going;            /* it takes no more calls */
  int64_t pinged;        /* 0: no answer is awaited */
};

void dlk_grpc_init(struct dlk_grpc *g);
void dlk_grpc_free(struct dlk_grpc *g);
/* A call of that kind, unless it is a stream under way; then a message for it:
 * open, append to c->out, say. */
void dlk_grpc_init_call(struct dlk_grpc_call *c, struct dlk_grpc *g,
                        const char *method, bool streams,
                        void (*told)(struct dlk_grpc_call *c));
size_t dlk_grpc_open(struct dlk_grpc_call *c);
/* False: no memory. */
bool dlk_grpc_say(struct dlk_grpc_call *c, size_t mark);
/* Takes the next whole message out of c->in; valid until the next call. */
bool dlk_grpc_next(struct dlk_grpc_call *c, struct dlk_etcd_bytes *message);
/* Nothing more is told; frees its buffers. */
void dlk_grpc_drop(struct dlk_grpc_call *c);
/* Writes what began. */
void dlk_grpc_flush(struct dlk_grpc *g);

#endif
