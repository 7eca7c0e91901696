/* One connection that comes back: it looks for its address, connects, greets,
 * carries bytes, and is made anew when it ends. It knows bytes and time; what
 * the bytes mean is the protocol's affair (struct dlk_net_protocol).
 *
 *   OFF       -> SEEKING              wake: it is wanted, or something waits
 *   SEEKING   -> OPENING              located
 *   OPENING   -> HANDSHAKE            on_open
 *   HANDSHAKE -> READY                ready
 *   OPENING, HANDSHAKE -> OPENING     located: another address
 *   SEEKING … HANDSHAKE -> PAUSE      attempt_failed, refuse
 *   READY     -> DRAINING             retreat
 *   READY     -> OFF, SEEKING         discard: it stood for a second
 *   READY, DRAINING -> PAUSE          discard: else
 *   PAUSE     -> OFF, SEEKING         on_timer
 *   any but STOPPED -> OFF            off
 *   any       -> STOPPED              stop */
#ifndef DLK_NET_CONN_H
#define DLK_NET_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/timer.h"
#include "net/endpoint.h"
#include "net/sock.h"
#include "store/store.h"

struct dlk_net_conn;

/* How messages name a server: by the URL, or by its role and address behind
 * that, where a URL has several. */
struct dlk_net_server_text {
  char text[600];
};

enum dlk_net_conn_state {
  DLK_NET_OFF,
  DLK_NET_PAUSE,     /* between two attempts */
  DLK_NET_SEEKING,   /* its address (endpoint.h) */
  DLK_NET_OPENING,   /* look-up, connect, and the handshake of TLS */
  DLK_NET_HANDSHAKE, /* the protocol's greeting */
  DLK_NET_READY,
  DLK_NET_DRAINING, /* ready, but only waits for replies, then pauses */
  DLK_NET_STOPPED
};

/* The part of a protocol. Its functions may call those below, which may end
 * the connection. */
struct dlk_net_protocol {
  /* HANDSHAKE: puts the greeting into `out`. The protocol calls `ready` or
   * `refuse` when it is answered. False: out of memory. */
  bool (*greet)(struct dlk_net_conn *c);
  /* These bytes came. False: they ended the connection. */
  bool (*take)(struct dlk_net_conn *c, const char *bytes, size_t n);
  /* The connection ends: half an answer is of no use, nor (before READY) is the
   * greeting. No caller is told. */
  void (*closed)(struct dlk_net_conn *c);
  /* A connection that was READY has ended: requests under way end. */
  void (*broken)(struct dlk_net_conn *c, const struct dlk_error *why);
  /* An attempt failed, or the connection is STOPPED: all requests end. */
  void (*failed)(struct dlk_net_conn *c, const struct dlk_error *why);
  /* Requests wait to be written. */
  bool (*waits)(const struct dlk_net_conn *c);
  /* When the oldest request under way was written, or -1. */
  int64_t (*oldest)(const struct dlk_net_conn *c);
  /* The connection must not end unnoticed. */
  bool (*needed)(struct dlk_net_conn *c);
  /* Says in *why what the server has answered to the greeting, if that explains
   * its end; text: what ended it. */
  bool (*explain)(struct dlk_net_conn *c, const char *text,
                  struct dlk_error *why);
  /* Asks for any answer, as a sign of life. */
  const char *ping;
  /* Ends of sentences about a server that accepts and says nothing, and about
   * one that hangs up at the greeting. */
  const char *mute, *hung_up;
};

struct dlk_net_conn {
  /* Set by the owner before the first use: */
  struct dlk_host *host;
  const struct dlk_conf *conf;
  struct dlk_net_endpoint *endpoint;
  const struct dlk_net_protocol *protocol;
  void (*gone)(void *arg); /* see sock.h; arg is this connection */
  unsigned *alive;
  int64_t connect_timeout; /* of an attempt, from seeking to ready */
  int64_t pause;           /* between two attempts at most; 0: a second */
  bool listens; /* the server speaks unasked: silence is no idleness */
  bool wanted;  /* reconnect even when no request waits; never idle */
  /* The connection's own: */
  enum dlk_net_conn_state state;
  struct dlk_net_seeker seeker;     /* from SEEKING until it is OFF again */
  const struct dlk_net_address *at; /* where it connected last */
  struct dlk_net_sock *sock;
  struct dlk_net_silent silent;
  struct dlk_timer timer;
  struct dlk_buf out;
  size_t out_at; /* so much of it has left */
  bool blocked;  /* the socket takes no more for now */
  bool heard;    /* something came since it was opened */
  bool asked;    /* it listens, and was asked for a sign of life */
  bool looked;   /* something seemed too late, and the loop ran again */
  int64_t until; /* an attempt to connect goes on until then */
  int64_t used;  /* when a request was written last; if it listens: when
                    something came last, or was asked for */
  int64_t state_since, armed;
  unsigned failures;
  struct dlk_error why;
};

void dlk_net_conn_init(struct dlk_net_conn *c);
void dlk_net_conn_free(struct dlk_net_conn *c);

/* ---- for its owner ---- */

/* Connects now if it should; otherwise when a request comes. */
void dlk_net_conn_wake(struct dlk_net_conn *c);
/* No more writes; when what is under way is answered, pause and reconnect. */
void dlk_net_conn_retreat(struct dlk_net_conn *c, const struct dlk_error *why);
/* Ends the connection for good, and all requests. */
void dlk_net_conn_stop(struct dlk_net_conn *c);
/* Ends it for now; no caller is told. Only when nothing waits. */
void dlk_net_conn_off(struct dlk_net_conn *c);

/* ---- for its protocol ---- */

static inline int64_t dlk_net_conn_now(const struct dlk_net_conn *c) {
  return c->host->now(c->host);
}

/* The verdict of the greeting. */
void dlk_net_conn_ready(struct dlk_net_conn *c);
void dlk_net_conn_refuse(struct dlk_net_conn *c, const struct dlk_error *why);
/* Whether it is READY and may be used. A server may have closed it: after a
 * second of silence, or `fragile` (a request that is not sent again) a few ms,
 * it is looked at before; then that ends it. */
bool dlk_net_conn_usable(struct dlk_net_conn *c, int64_t at, bool fragile);
/* Requests were put into `out` at that time. */
void dlk_net_conn_asked(struct dlk_net_conn *c, int64_t at);
/* Sends `out`. */
void dlk_net_conn_send(struct dlk_net_conn *c);
/* Blocks for DLK_AWAIT_MAX at most until something comes, and takes it; false:
 * nothing did. Only when READY. */
bool dlk_net_conn_await(struct dlk_net_conn *c);
/* Where it goes, for messages. */
struct dlk_net_server_text dlk_net_conn_name(const struct dlk_net_conn *c);
/* It is of no use any more, for that reason: a text says it in the user's
 * words, behind the server's name. */
void dlk_net_conn_discard(struct dlk_net_conn *c, enum dlk_code code,
                          const char *text);
/* The same, by what the server does; `explain` may say more. */
void dlk_net_conn_lost(struct dlk_net_conn *c, const char *text);

#endif
