/* I1  A time-out, protocol or write error ends the connection: the next reply
 *     would belong to the last command.
 * I2  A failed attempt ends all that waits. A caller that submits again waits
 *     for the next attempt, after a pause that grows to a second.
 * I3  A connection that ends is made anew at once if it stood for a second,
 *     else only the first time: a handshake costs a server most.
 * I4  Before its end all is read: an answer may have come with the end, and
 *     libuv stops a poll that reported an error.
 * I5  `broken` and `failed` may submit, wake or stop, so the state changes
 *     before.
 * I6  The timer never moves to later: on_timer looks at what is due. */
#include "net/conn.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "net/event.h"

#define STANDS DLK_SEC
#define IDLE_CLOSE (60 * DLK_SEC)
/* A silent connection that listens asks for a sign of life. */
#define SILENCE (5 * DLK_SEC)
/* Servers close idle connections after whole seconds. Another end shows as a
 * lost answer, so a request that is not repeated looks sooner. */
#define QUIET DLK_SEC
#define QUIET_FRAGILE (5 * DLK_MS)
#define PAUSE_FIRST (20 * DLK_MS)
#define PAUSE_LAST DLK_SEC

static void arm(struct dlk_net_conn *c, int64_t at) {
  if (c->timer.node.queued && c->armed <= at)
    return;
  c->armed = at;
  c->host->timer_set(c->host, &c->timer, at);
}

static void enter(struct dlk_net_conn *c, enum dlk_net_conn_state state) {
  c->state = state;
  c->seeker.settled = state >= DLK_NET_READY;
  c->state_since = dlk_net_conn_now(c);
  c->looked = false;
}

static bool stood(const struct dlk_net_conn *c) {
  return c->state >= DLK_NET_READY &&
         dlk_net_conn_now(c) - c->state_since >= STANDS;
}

/* ---- how it ends ---- */

static void close_sock(struct dlk_net_conn *c) {
  dlk_net_sock_close(c->sock);
  c->sock = NULL;
  c->protocol->closed(c);
  dlk_buf_clear(&c->out);
  c->out_at = 0;
  c->blocked = false;
}

static void close_all(struct dlk_net_conn *c) {
  if (c->endpoint->forget)
    c->endpoint->forget(c->endpoint, &c->seeker);
  close_sock(c);
  c->host->timer_clear(c->host, &c->timer);
}

static void start_pause(struct dlk_net_conn *c) {
  int64_t span = PAUSE_FIRST, most = c->pause ? c->pause : PAUSE_LAST;
  uint16_t jitter;
  c->failures++;
  for (unsigned i = 1; i < c->failures && span < most; i++)
    span *= 2;
  if (span > most)
    span = most;
  enter(c, DLK_NET_PAUSE);
  c->host->random(c->host, &jitter, sizeof jitter);
  arm(c, dlk_net_conn_now(c) + span / 2 + span / 2 * jitter / UINT16_MAX);
}

static void attempt_failed(struct dlk_net_conn *c,
                           const struct dlk_error *given) {
  struct dlk_error why = *given;
  close_all(c);
  c->why = why;
  start_pause(c);
  c->protocol->failed(c, &why);
}

static void discard(struct dlk_net_conn *c, const struct dlk_error *given) {
  struct dlk_error why = *given;
  if (c->state < DLK_NET_READY) {
    attempt_failed(c, &why);
    return;
  }
  bool drained = c->state == DLK_NET_DRAINING;
  bool lasting = stood(c);
  close_all(c);
  c->why = why;
  if (lasting)
    c->failures = 0;
  if (drained || c->failures > 0) {
    start_pause(c);
  } else {
    c->failures = !lasting;
    enter(c, DLK_NET_OFF);
  }
  c->protocol->broken(c, &why);
  dlk_net_conn_wake(c);
}

struct dlk_net_server_text dlk_net_conn_name(const struct dlk_net_conn *c) {
  struct dlk_net_server_text t;
  int n = snprintf(t.text, sizeof t.text, "%.300s", c->conf->shown);
  if (c->endpoint->role && c->at) {
    struct dlk_net_place place = {.port = c->at->port};
    snprintf(place.host, sizeof place.host, "%s", c->at->host);
    snprintf(t.text + n, sizeof t.text - (size_t)n, ": %s %s",
             c->endpoint->role, dlk_net_place_text(&place).text);
  }
  return t;
}

void dlk_net_conn_event(const struct dlk_net_conn *c, const char *kind,
                        const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  dlk_net_tell(c->host, kind, dlk_net_conn_name(c).text, fmt, ap);
  va_end(ap);
}

static void say(const struct dlk_net_conn *c, enum dlk_code code,
                const char *text, struct dlk_error *why) {
  dlk_error_set(why, code, "%s: %s", dlk_net_conn_name(c).text, text);
}

void dlk_net_conn_discard(struct dlk_net_conn *c, enum dlk_code code,
                          const char *text) {
  struct dlk_error why;
  say(c, code, text, &why);
  discard(c, &why);
}

void dlk_net_conn_lost(struct dlk_net_conn *c, const char *text) {
  struct dlk_error why;
  if (c->state != DLK_NET_HANDSHAKE || !c->protocol->explain ||
      !c->protocol->explain(c, text, &why))
    say(c, DLK_UNAVAILABLE, text, &why);
  discard(c, &why);
}

/* Only a handshake can be refused; TLS 1.3 does so with its first answer. */
static void lost_reading(struct dlk_net_conn *c, ssize_t n, int error) {
  char text[DLK_NET_WHY_MAX];
  bool first = c->state == DLK_NET_HANDSHAKE && !c->heard;
  enum dlk_code code = dlk_net_sock_reason(
      c->sock, n, error, first ? c->protocol->hung_up : "", text);
  if (c->state >= DLK_NET_READY || code == DLK_UNAVAILABLE)
    dlk_net_conn_lost(c, text);
  else
    dlk_net_conn_discard(c, code, text);
}

void dlk_net_conn_refuse(struct dlk_net_conn *c, const struct dlk_error *why) {
  attempt_failed(c, why);
}

void dlk_net_conn_retreat(struct dlk_net_conn *c, const struct dlk_error *why) {
  if (c->state != DLK_NET_READY)
    return;
  c->why = *why;
  c->state = DLK_NET_DRAINING;
}

void dlk_net_conn_off(struct dlk_net_conn *c) {
  if (c->state == DLK_NET_STOPPED)
    return;
  if (stood(c))
    c->failures = 0;
  close_all(c);
  enter(c, DLK_NET_OFF);
}

void dlk_net_conn_stop(struct dlk_net_conn *c) {
  struct dlk_error why;
  if (c->state == DLK_NET_STOPPED)
    return;
  close_all(c);
  enter(c, DLK_NET_STOPPED);
  dlk_error_set(&why, DLK_CLOSED, "the store was closed");
  c->protocol->failed(c, &why);
}

/* over: why nothing follows what can be read now, or NULL. */
static void take_in(struct dlk_net_conn *c, const char *over);

void dlk_net_conn_send(struct dlk_net_conn *c) {
  if (c->out.failed) {
    dlk_net_conn_lost(c, "out of memory");
    return;
  }
  while (!c->blocked && c->out_at < c->out.len) {
    ssize_t n = dlk_net_sock_send(c->sock, c->out.data + c->out_at,
                                  c->out.len - c->out_at);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      c->blocked = true;
    } else if (n < 0) {
      take_in(c, strerror(errno));
      return;
    } else {
      c->out_at += (size_t)n;
    }
  }
  if (c->blocked)
    return;
  dlk_buf_clear(&c->out);
  c->out_at = 0;
}

void dlk_net_conn_asked(struct dlk_net_conn *c, int64_t at) {
  c->used = at;
  arm(c, dlk_time_add(at, c->conf->io_timeout));
  dlk_net_conn_send(c);
}

bool dlk_net_conn_usable(struct dlk_net_conn *c, int64_t at, bool fragile) {
  int64_t quiet = at - c->used;
  char byte;
  if (c->state != DLK_NET_READY)
    return false;
  if (c->listens || c->protocol->oldest(c) >= 0 ||
      quiet < (fragile ? QUIET_FRAGILE : QUIET))
    return true;
  ssize_t n = dlk_net_sock_recv(c->sock, &byte, 1);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
    return true;
  /* A byte without a request is as bad. */
  dlk_net_conn_lost(c, "the server closed the connection");
  return false;
}

/* Returns false if the bytes ended the connection. */
static bool take(struct dlk_net_conn *c, const char *bytes, size_t n) {
  c->looked = false;
  c->heard = true;
  if (c->listens) {
    c->used = dlk_net_conn_now(c);
    if (c->asked)
      arm(c, dlk_time_add(c->used, SILENCE));
    c->asked = false;
  }
  return c->protocol->take(c, bytes, n);
}

static void drained(struct dlk_net_conn *c) {
  if (c->state == DLK_NET_DRAINING && c->protocol->oldest(c) < 0)
    discard(c, &c->why);
}

static void take_in(struct dlk_net_conn *c, const char *over) {
  char bytes[16384];
  for (;;) {
    ssize_t n = dlk_net_sock_recv(c->sock, bytes, sizeof bytes);
    bool empty = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (empty && !over)
      break;
    if (n <= 0) {
      if (empty)
        dlk_net_conn_lost(c, over);
      else
        lost_reading(c, n, errno);
      return;
    }
    if (!take(c, bytes, (size_t)n))
      return;
    if ((size_t)n < sizeof bytes && !over)
      break;
  }
  drained(c);
}

bool dlk_net_conn_await(struct dlk_net_conn *c) {
  char bytes[16384];
  if (c->state != DLK_NET_READY || c->blocked)
    return false;
  ssize_t n = dlk_net_sock_await(c->sock, bytes, sizeof bytes);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
    return false;
  if (n <= 0) {
    lost_reading(c, n, errno);
  } else if (take(c, bytes, (size_t)n)) {
    /* No poll may tell of the rest (secure.c). */
    if ((size_t)n == sizeof bytes)
      take_in(c, NULL);
    else
      drained(c);
  }
  return true;
}

/* ---- what the socket tells ---- */

static void on_open(void *arg) {
  struct dlk_net_conn *c = arg;
  enter(c, DLK_NET_HANDSHAKE);
  if (c->protocol->greet(c))
    dlk_net_conn_send(c);
  else
    dlk_net_conn_lost(c, "out of memory");
}

static void on_failed(void *arg, enum dlk_code code, const char *text) {
  struct dlk_error why;
  say(arg, code, text, &why);
  attempt_failed(arg, &why);
}

static void on_readable(void *arg) {
  take_in(arg, NULL);
}

static void on_writable(void *arg) {
  struct dlk_net_conn *c = arg;
  c->blocked = false;
  dlk_net_conn_send(c);
}

static void on_broken(void *arg) {
  take_in(arg, "the connection broke");
}

static const struct dlk_net_sock_events sock_events = {
    on_open, on_failed, on_readable, on_writable, on_broken};

/* ---- how it begins ---- */

static void allow_time(struct dlk_net_conn *c) {
  c->host->timer_clear(c->host, &c->timer);
  c->until = dlk_time_add(dlk_net_conn_now(c), c->connect_timeout);
  arm(c, c->until);
}

void dlk_net_conn_wake(struct dlk_net_conn *c) {
  if (c->state != DLK_NET_OFF || (!c->wanted && !c->protocol->waits(c)))
    return;
  enter(c, DLK_NET_SEEKING);
  allow_time(c);
  c->endpoint->locate(c->endpoint, &c->seeker);
}

static void located(struct dlk_net_seeker *who,
                    const struct dlk_net_address *address,
                    const struct dlk_error *why) {
  struct dlk_net_conn *c = DLK_CONTAINER(who, struct dlk_net_conn, seeker);
  if (c->state != DLK_NET_SEEKING && address == c->at)
    return;
  if (!address) {
    if (c->state == DLK_NET_SEEKING)
      attempt_failed(c, why);
  } else if (c->state >= DLK_NET_READY) {
    struct dlk_error moved;
    dlk_error_set(&moved, DLK_UNAVAILABLE, "%s: another server is %s now",
                  c->conf->shown, c->endpoint->role);
    c->failures = 0;
    discard(c, &moved);
  } else {
    if (c->state != DLK_NET_SEEKING) {
      close_sock(c);
      allow_time(c);
    }
    char text[DLK_REASON_MAX];
    int error = 0;
    c->at = address;
    c->state = DLK_NET_OPENING; /* in the same time */
    c->looked = c->heard = false;
    c->sock = dlk_net_sock_open(c->host->loop(c->host), address, &c->silent,
                                c->conf->io_timeout, &sock_events, c->gone,
                                c->alive, c, &error);
    if (!c->sock)
      on_failed(c, dlk_net_sock_code(error), dlk_reason(text, error));
  }
}

void dlk_net_conn_ready(struct dlk_net_conn *c) {
  enter(c, DLK_NET_READY);
  c->used = c->state_since;
  c->asked = false;
  c->host->timer_clear(c->host, &c->timer);
  arm(c, dlk_time_add(c->used, c->listens ? SILENCE : IDLE_CLOSE));
}

/* ---- time ---- */

/* The loop may not have run for long, and the answer only has to be read: so
 * the loop runs once more. */
static bool too_late(struct dlk_net_conn *c, int64_t at) {
  c->looked = !c->looked;
  if (c->looked)
    arm(c, at + DLK_MS);
  return !c->looked;
}

static void connecting(struct dlk_net_conn *c, int64_t at) {
  const char *why =
      c->state == DLK_NET_SEEKING ? "its address was not found in time"
      : c->state == DLK_NET_OPENING
          ? "could not connect in time; check the host and firewalls"
          : c->protocol->mute;
  if (at < c->until) {
    arm(c, c->until);
  } else if (too_late(c, at)) {
    dlk_net_sock_note(c->sock);
    dlk_net_conn_lost(c, dlk_net_sock_late(c->sock, why));
  }
}

/* A connection that only listens is silent for long. While it matters, it asks
 * behind all that is under way; any answer counts, even a refusal. */
static void listening(struct dlk_net_conn *c, int64_t at) {
  int64_t span = c->asked ? c->conf->io_timeout : SILENCE;
  int64_t due = dlk_time_add(c->used, span);
  if (at < due) {
    arm(c, due);
  } else if (c->asked) {
    if (too_late(c, at))
      dlk_net_conn_lost(c, "the server did not answer in time");
  } else if (!c->protocol->needed(c)) {
    arm(c, dlk_time_add(at, SILENCE));
  } else {
    c->asked = true;
    dlk_buf_add(&c->out, c->protocol->ping, strlen(c->protocol->ping));
    dlk_net_conn_asked(c, at);
  }
}

static void asking(struct dlk_net_conn *c, int64_t at) {
  int64_t oldest = c->protocol->oldest(c);
  int64_t due = oldest >= 0 ? dlk_time_add(oldest, c->conf->io_timeout)
                            : dlk_time_add(c->used, IDLE_CLOSE);
  if (at < due) {
    arm(c, due);
  } else if (oldest >= 0) {
    if (too_late(c, at))
      dlk_net_conn_lost(c, "the server did not answer in time");
  } else if (c->wanted || c->protocol->needed(c)) {
    arm(c, dlk_time_add(at, IDLE_CLOSE));
  } else {
    dlk_net_conn_off(c);
  }
}

static void on_timer(struct dlk_timer *timer, int64_t at) {
  struct dlk_net_conn *c = DLK_CONTAINER(timer, struct dlk_net_conn, timer);
  switch (c->state) {
  case DLK_NET_PAUSE:
    enter(c, DLK_NET_OFF);
    dlk_net_conn_wake(c);
    break;
  case DLK_NET_SEEKING:
  case DLK_NET_OPENING:
  case DLK_NET_HANDSHAKE:
    connecting(c, at);
    break;
  case DLK_NET_READY:
  case DLK_NET_DRAINING:
    if (c->listens)
      listening(c, at);
    else
      asking(c, at);
    break;
  case DLK_NET_OFF:
  case DLK_NET_STOPPED:
    break;
  }
}

void dlk_net_conn_init(struct dlk_net_conn *c) {
  c->timer.fire = on_timer;
  c->seeker.located = located;
  dlk_list_init(&c->seeker.entry);
  c->state = DLK_NET_OFF;
}

void dlk_net_conn_free(struct dlk_net_conn *c) {
  dlk_buf_free(&c->out);
}
