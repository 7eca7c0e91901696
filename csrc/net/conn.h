/* One connection that comes back: it finds its address, connects, greets,
 * carries bytes, and is made anew when it ends. The bytes' meaning is the
 * protocol's.
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
#include "store/host.h"

struct dlk_net_conn;

/* The URL; with role and address if it has several. */
struct dlk_net_server_text {
  char text[600];
};

enum dlk_net_conn_state {
  DLK_NET_OFF,
  DLK_NET_PAUSE,
  DLK_NET_SEEKING,
  DLK_NET_OPENING, /* look-up, connect, TLS */
  DLK_NET_HANDSHAKE,
  DLK_NET_READY,
  DLK_NET_DRAINING, /* reads replies */
  DLK_NET_STOPPED
};

/* The functions may even end the connection. */
struct dlk_net_protocol {
  /* Puts the greeting into `out`; its answer leads to `ready` or `refuse`.
   * False: no memory. */
  bool (*greet)(struct dlk_net_conn *c);
  /* False: these bytes ended the connection. */
  bool (*take)(struct dlk_net_conn *c, const char *bytes, size_t n);
  /* It ends: drops half an answer, and the greeting. */
  void (*closed)(struct dlk_net_conn *c);
  /* A READY one has ended: ends requests under way. */
  void (*broken)(struct dlk_net_conn *c, const struct dlk_error *why);
  /* An attempt failed, or STOPPED: ends all requests. */
  void (*failed)(struct dlk_net_conn *c, const struct dlk_error *why);
  bool (*waits)(const struct dlk_net_conn *c);
  /* When that request was written, or -1. */
  int64_t (*oldest)(const struct dlk_net_conn *c);
  bool (*needed)(struct dlk_net_conn *c);
  /* Explains its end by the server's answer to the greeting. */
  bool (*explain)(struct dlk_net_conn *c, const char *text,
                  struct dlk_error *why);
  /* Its answer is a sign of life. */
  const char *ping;
  /* Rests of sentences: the server is silent; it hangs up at the greeting. */
  const char *mute, *hung_up;
};

struct dlk_net_conn {
  /* The owner's: */
  struct dlk_host *host;
  const struct dlk_conf *conf;
  struct dlk_net_endpoint *endpoint;
  const struct dlk_net_protocol *protocol;
  void (*gone)(void *arg); /* see sock.h */
  unsigned *alive;
  int64_t connect_timeout; /* until READY */
  int64_t pause;           /* at most; 0: a second */
  bool listens;            /* the server speaks unasked */
  bool wanted;             /* reconnects without requests */
  enum dlk_net_conn_state state;
  struct dlk_net_seeker seeker;
  const struct dlk_net_address *at; /* connected last */
  struct dlk_net_sock *sock;
  struct dlk_net_silent silent;
  struct dlk_timer timer;
  struct dlk_buf out;
  size_t out_at; /* sent */
  bool blocked;
  bool heard;  /* something came since OPENING */
  bool asked;  /* for a sign of life */
  bool looked; /* the loop runs once more */
  int64_t until;
  int64_t used; /* last request written; of a listener: last bytes or ping */
  int64_t state_since, armed;
  unsigned failures;
  struct dlk_error why;
};

void dlk_net_conn_init(struct dlk_net_conn *c);
void dlk_net_conn_free(struct dlk_net_conn *c);

/* ---- for its owner ---- */

void dlk_net_conn_wake(struct dlk_net_conn *c);
/* Only reads, then pauses. */
void dlk_net_conn_retreat(struct dlk_net_conn *c, const struct dlk_error *why);
/* Ends it for good. */
void dlk_net_conn_stop(struct dlk_net_conn *c);
/* For now. Nothing may wait. */
void dlk_net_conn_off(struct dlk_net_conn *c);

/* ---- for its protocol ---- */

static inline int64_t dlk_net_conn_now(const struct dlk_net_conn *c) {
  return c->host->now(c->host);
}

void dlk_net_conn_ready(struct dlk_net_conn *c);
void dlk_net_conn_refuse(struct dlk_net_conn *c, const struct dlk_error *why);
/* READY, and not closed by the server: it looks after a second of silence, or
 * after a few ms if `fragile` (a request that is not repeated). */
bool dlk_net_conn_usable(struct dlk_net_conn *c, int64_t at, bool fragile);
void dlk_net_conn_asked(struct dlk_net_conn *c, int64_t at);
void dlk_net_conn_send(struct dlk_net_conn *c);
/* When READY: takes bytes within DLK_AWAIT_MAX, or returns false. */
bool dlk_net_conn_await(struct dlk_net_conn *c);
struct dlk_net_server_text dlk_net_conn_name(const struct dlk_net_conn *c);
/* News for on_event, which begin with that. */
void dlk_net_conn_event(const struct dlk_net_conn *c, const char *kind,
                        const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends it; text: why, in the user's words. */
void dlk_net_conn_discard(struct dlk_net_conn *c, enum dlk_code code,
                          const char *text);
/* The same for what the server did; see `explain`. */
void dlk_net_conn_lost(struct dlk_net_conn *c, const char *text);

#endif
