/* Client libraries raise SIGPIPE in the host, block, or forget time-outs: so
 * the socket is ours.
 *
 *   CONNECTING -> SHAKING   on_connected: with TLS
 *   CONNECTING -> OPEN      on_connected
 *   SHAKING    -> OPEN      greet
 *   any        -> CLOSED    dlk_net_sock_close
 *
 * `fd` and `watch` live and die together. A watch is freed in its close
 * callback, the socket when `refs` (owner, watches, look-up) is 0. After close
 * the owner hears nothing. The owner bounds the time. */
#include "net/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include "core/trace.h"
#include "net/resolve.h"
#include "net/secure.h"
#include "store/host.h"
#include "tls/tls.h"

enum state { CONNECTING, SHAKING, OPEN, CLOSED };

struct watch {
  uv_poll_t poll;
  struct dlk_net_sock *sock;
};

struct dlk_net_sock {
  uv_loop_t *loop;
  const struct dlk_net_address *address;
  struct dlk_net_silent *silent;
  int64_t io_timeout;
  const struct dlk_net_sock_events *events;
  void (*gone)(void *arg);
  unsigned *alive;
  void *arg;
  int fd, refs;
  enum state state;
  bool awaits;                   /* without MSG_DONTWAIT it blocks */
  bool full;                     /* polled for room */
  struct dlk_net_secure *secure; /* NULL: no TLS */
  struct watch *watch;
  struct dlk_net_addresses addresses;
  struct dlk_net_lookup *lookup;
  int error; /* of the addresses: the most telling */
  struct sockaddr_storage peer;
  socklen_t peer_len;
};

static void on_poll(uv_poll_t *poll, int status, int events);

static void unref(struct dlk_net_sock *s) {
  if (--s->refs > 0)
    return;
  unsigned *alive = s->alive;
  void (*gone)(void *) = s->gone;
  void *arg = s->arg;
  free(s);
  --*alive;
  gone(arg);
}

static void watch_closed(uv_handle_t *h) {
  struct watch *w = h->data;
  struct dlk_net_sock *s = w->sock;
  free(w);
  unref(s);
}

static void drop_fd(struct dlk_net_sock *s) {
  if (s->watch)
    uv_close((uv_handle_t *)&s->watch->poll, watch_closed);
  s->watch = NULL;
  dlk_net_secure_close(s->secure, s->fd);
  s->secure = NULL;
  if (s->fd >= 0)
    close(s->fd);
  s->fd = -1;
}

/* ---- the descriptor ---- */

static void option(int fd, int level, int name, int value) {
  (void)setsockopt(fd, level, name, &value, sizeof value);
}

/* The kernel ends a connection whose peer confirms nothing for io_timeout, and
 * probes a silent one. */
static void tune(int fd, int64_t io_timeout) {
  option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  int ms = (int)(io_timeout / DLK_MS);
  option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, ms > 0 ? ms : 1);
  option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

/* Only `await` leaves MSG_DONTWAIT out, and libuv polls: so fd may block, for
 * DLK_AWAIT_MAX at most. False: it does not. */
static bool let_block(int fd) {
  const struct timeval most = {.tv_usec = DLK_AWAIT_MAX / DLK_US};
  int flags = fcntl(fd, F_GETFL);
  return flags >= 0 &&
         setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most) == 0 &&
         fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0;
}

static int connect_to(struct dlk_net_sock *s, const struct sockaddr *addr,
                      socklen_t len) {
  memcpy(&s->peer, addr, len);
  s->peer_len = len;
  s->fd =
      socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (s->fd < 0)
    return errno;
  if (addr->sa_family != AF_UNIX)
    tune(s->fd, s->io_timeout);
  if (connect(s->fd, addr, len) != 0 && errno != EINPROGRESS) {
    int e = errno;
    drop_fd(s);
    return e;
  }
  s->watch = calloc(1, sizeof *s->watch);
  if (!s->watch || uv_poll_init(s->loop, &s->watch->poll, s->fd) != 0) {
    free(s->watch);
    s->watch = NULL;
    drop_fd(s);
    return ENOMEM;
  }
  s->watch->sock = s;
  s->watch->poll.data = s->watch;
  s->refs++;
  int rc = uv_poll_start(&s->watch->poll, UV_WRITABLE, on_poll);
  if (rc != 0)
    drop_fd(s);
  return rc < 0 ? -rc : 0;
}

/* Another address's answer says more than a family without a route. */
static void note_error(struct dlk_net_sock *s, int e) {
  if (s->error == 0 || s->error == ENETUNREACH || s->error == EAFNOSUPPORT ||
      s->error == EADDRNOTAVAIL)
    s->error = e;
}

static int connect_next(struct dlk_net_sock *s) {
  const struct sockaddr *a;
  socklen_t len;
  while ((a = dlk_net_addresses_next(&s->addresses, &len)) != NULL) {
    int e = connect_to(s, a, len);
    if (e == 0)
      return 0;
    note_error(s, e);
  }
  return s->error ? s->error : ECONNREFUSED;
}

/* A server that does not run has no Unix socket. */
enum dlk_code dlk_net_sock_code(int error) {
  return error == ENOENT ? DLK_UNAVAILABLE : dlk_errno_code(error);
}

static void fail(struct dlk_net_sock *s, int e) {
  char reason[DLK_REASON_MAX], why[DLK_REASON_MAX + 32];
  enum dlk_code code = dlk_net_sock_code(e);
  bool ours = e == EMFILE || e == ENFILE || code != DLK_UNAVAILABLE;
  snprintf(why, sizeof why, "%s%s", dlk_reason(reason, e),
           ours ? "" : "; is the server running there?");
  s->events->failed(s->arg, code, why);
}

static void poll_for(struct dlk_net_sock *s, bool room) {
  int events = room ? UV_READABLE | UV_WRITABLE : UV_READABLE;
  if (s->full == room)
    return;
  s->full = room;
  if (s->watch)
    (void)uv_poll_start(&s->watch->poll, events, on_poll);
}

/* ---- the handshake of TLS ---- */

static void opened(struct dlk_net_sock *s) {
  s->state = OPEN;
  s->awaits = let_block(s->fd);
  s->full = s->secure && dlk_net_secure_waits(s->secure);
  int events = s->full ? UV_READABLE | UV_WRITABLE : UV_READABLE;
  int rc = uv_poll_start(&s->watch->poll, events, on_poll);
  if (rc != 0)
    fail(s, -rc);
  else
    s->events->open(s->arg);
}

static void greet(struct dlk_net_sock *s, bool broken) {
  struct dlk_tls_fault fault = {DLK_UNAVAILABLE, ""};
  switch (dlk_net_secure_greet(s->secure, s->fd, &fault)) {
  case DLK_NET_GREETED:
    DLK_TRACE(dlk_clock_now(), "net", "tls", NULL, 0, "%s",
              dlk_net_secure_shown(s->secure).text);
    opened(s);
    return;
  case DLK_NET_GREETING:
    if (!broken) {
      poll_for(s, dlk_net_secure_waits(s->secure));
      return;
    }
    dlk_net_secure_fault(s->secure, &fault);
    break;
  case DLK_NET_UNGREETED:
    break;
  }
  s->events->failed(s->arg, fault.code, fault.text);
}

static void start_tls(struct dlk_net_sock *s) {
  struct dlk_tls_fault fault;
  s->state = SHAKING;
  s->secure = dlk_net_secure_new(s->address, &fault);
  if (!s->secure) {
    s->events->failed(s->arg, fault.code, fault.text);
    return;
  }
  s->full = true; /* from connecting */
  greet(s, false);
}

/* ---- what the loop tells ---- */

static void on_connected(struct dlk_net_sock *s) {
  int e = 0;
  socklen_t len = sizeof e;
  if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &e, &len) != 0)
    e = errno;
  if (e != 0) {
    if (e == ETIMEDOUT || e == EHOSTUNREACH)
      dlk_net_sock_note(s);
    drop_fd(s);
    note_error(s, e);
    e = connect_next(s);
    if (e != 0)
      fail(s, e);
    return;
  }
  if (s->address->tls)
    start_tls(s);
  else
    opened(s);
}

static void on_open_poll(struct dlk_net_sock *s, int status, int events) {
  bool room = (events & UV_WRITABLE) != 0;
  bool sent = !room || !s->secure || dlk_net_secure_push(s->secure, s->fd);
  if (status < 0 || !sent) { /* libuv has stopped the poll if status < 0 */
    s->events->broken(s->arg);
    return;
  }
  if (events & UV_READABLE || (s->secure && dlk_net_secure_holds(s->secure)))
    s->events->readable(s->arg);
  if (s->state != CLOSED && room)
    s->events->writable(s->arg);
  if (s->secure)
    poll_for(s, dlk_net_secure_waits(s->secure));
}

static void on_poll(uv_poll_t *poll, int status, int events) {
  struct watch *w = poll->data;
  struct dlk_net_sock *s = w->sock;
  if (s->state == CLOSED || s->watch != w)
    return;
  s->refs++; /* the owner may close it */
  if (s->state == CONNECTING)
    on_connected(s);
  else if (s->state == SHAKING)
    greet(s, status < 0);
  else
    on_open_poll(s, status, events);
  unref(s);
}

static void on_lookup(void *arg, int status,
                      const struct dlk_net_addresses *found) {
  struct dlk_net_sock *s = arg;
  char why[160];
  s->lookup = NULL;
  s->addresses = *found;
  dlk_net_addresses_begin(&s->addresses, s->silent);
  if (status != 0) {
    snprintf(why, sizeof why, "the name of its host cannot be resolved (%s)",
             gai_strerror(status));
    s->events->failed(s->arg, DLK_UNAVAILABLE, why);
    return;
  }
  int e = connect_next(s);
  if (e != 0)
    fail(s, e);
}

static void lookup_gone(void *arg) {
  unref(arg);
}

static int start_tcp(struct dlk_net_sock *s) {
  const struct dlk_net_address *a = s->address;
  int port = a->port;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
  if (uv_ip4_addr(a->host, port, &v4) == 0)
    return connect_to(s, (struct sockaddr *)&v4, sizeof v4);
  if (uv_ip6_addr(a->host, port, &v6) == 0)
    return connect_to(s, (struct sockaddr *)&v6, sizeof v6);
  char text[8];
  snprintf(text, sizeof text, "%d", port);
  int e = dlk_net_lookup_start(s->loop, a->host, text, on_lookup, lookup_gone,
                               s, &s->lookup);
  if (e == 0)
    s->refs++;
  return e;
}

static int start_unix(struct dlk_net_sock *s) {
  struct sockaddr_un un = {.sun_family = AF_UNIX};
  size_t len = strlen(s->address->path);
  if (len >= sizeof un.sun_path)
    return ENAMETOOLONG;
  memcpy(un.sun_path, s->address->path, len + 1);
  return connect_to(s, (struct sockaddr *)&un, sizeof un);
}

struct dlk_net_sock *dlk_net_sock_open(struct uv_loop_s *loop,
                                       const struct dlk_net_address *address,
                                       struct dlk_net_silent *silent,
                                       int64_t io_timeout,
                                       const struct dlk_net_sock_events *events,
                                       void (*gone)(void *arg), unsigned *alive,
                                       void *arg, int *error) {
  struct dlk_net_sock *s = calloc(1, sizeof *s);
  if (!s) {
    *error = ENOMEM;
    return NULL;
  }
  s->loop = loop;
  s->address = address;
  s->silent = silent;
  s->io_timeout = io_timeout;
  s->events = events;
  s->gone = gone;
  s->alive = alive;
  s->arg = arg;
  s->fd = -1;
  s->refs = 2; /* the caller's, and this function's */
  ++*alive;
  int e = address->host ? start_tcp(s) : start_unix(s);
  if (e != 0) {
    *error = e;
    dlk_net_sock_close(s);
    unref(s);
    return NULL;
  }
  unref(s);
  return s;
}

static ssize_t secured(struct dlk_net_sock *s, ssize_t rc) {
  int problem = errno;
  poll_for(s, dlk_net_secure_waits(s->secure));
  errno = problem;
  return rc;
}

ssize_t dlk_net_sock_send(struct dlk_net_sock *s, const void *p, size_t n) {
  if (s->secure)
    return secured(s, dlk_net_secure_send(s->secure, s->fd, p, n));
  ssize_t rc;
  do {
    rc = send(s->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (rc < 0 && errno == EINTR);
  if (rc < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    poll_for(s, true);
    errno = EAGAIN;
  } else if (rc >= 0 && (size_t)rc == n) {
    poll_for(s, false);
  }
  return rc;
}

ssize_t dlk_net_sock_recv(struct dlk_net_sock *s, void *p, size_t n) {
  if (s->secure)
    return secured(s, dlk_net_secure_recv(s->secure, s->fd, p, n, false));
  ssize_t rc;
  do {
    rc = recv(s->fd, p, n, MSG_DONTWAIT);
  } while (rc < 0 && errno == EINTR);
  return rc;
}

ssize_t dlk_net_sock_await(struct dlk_net_sock *s, void *p, size_t n) {
  if (!s->secure)
    return recv(s->fd, p, n, s->awaits ? 0 : MSG_DONTWAIT);
  bool awaits = s->awaits && !dlk_net_secure_waits(s->secure);
  return secured(s, dlk_net_secure_recv(s->secure, s->fd, p, n, awaits));
}

enum dlk_code dlk_net_sock_reason(const struct dlk_net_sock *s, ssize_t n,
                                  int error, const char *hung_up,
                                  char out[DLK_NET_WHY_MAX]) {
  struct dlk_tls_fault fault = {DLK_UNAVAILABLE,
                                "the server closed the connection"};
  bool ended = n == 0 || error == EPROTO;
  if (s->secure && ended)
    dlk_net_secure_fault(s->secure, &fault);
  snprintf(out, DLK_NET_WHY_MAX, "%.255s%s",
           ended ? fault.text : strerror(error), s->secure ? "" : hung_up);
  return fault.code;
}

const char *dlk_net_sock_late(const struct dlk_net_sock *s, const char *why) {
  if (s && s->lookup)
    return "the name of its host was not resolved in time";
  return s && s->state == SHAKING
             ? "accepts connections but does not answer the TLS handshake; is "
               "it a TLS port?"
             : why;
}

void dlk_net_sock_note(const struct dlk_net_sock *s) {
  if (s && s->state == CONNECTING && s->fd >= 0)
    *s->silent = (struct dlk_net_silent){.peer = s->peer, .len = s->peer_len};
}

int dlk_net_sock_fd(const struct dlk_net_sock *s) {
  return s->fd;
}

void dlk_net_sock_close(struct dlk_net_sock *s) {
  if (!s || s->state == CLOSED)
    return;
  s->state = CLOSED;
  drop_fd(s);
  if (s->lookup)
    dlk_net_lookup_end(s->lookup);
  s->lookup = NULL;
  unref(s);
}
