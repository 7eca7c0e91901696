/* Invariants:
 * - Any time-out, protocol error or write error discards the connection:
 *   after a time-out the next reply would belong to the last command. What
 *   flew ends as UNKNOWN, and `broken` is told so before, so that the next
 *   handshake has the server drop the old connection first.
 * - Nothing but the handshake's requests flies in the state HANDSHAKE. When an
 *   attempt fails, everything that waits ends as UNSENT: whoever still wants an
 *   answer submits again and so waits for the next attempt, which comes after a
 *   pause that grows to a second.
 * - Whatever ends a connection, all that can still be read is read before: an
 *   answer or a message may have come together with the end, and libuv stops
 *   a poll that reported an error.
 * - A connection that only listens is given up when it is silent and does not
 *   answer PING in time; it is asked only while somebody holds or waits.
 * - `sent` is read from the clock before the bytes are even made, so that a
 *   lease counted from it is never too long.
 *
 * Costs: requests submitted between two turns of the loop leave in one
 * write; who waits for one answer reads it without the loop (loop/await.c); the
 * poll handle stays started for reading, so no command costs an epoll_ctl; a
 * short read is not followed by another; and the timer is not moved for each
 * command but looks, when it fires, at what is oldest. */
#include "store/redis/conn/conn.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "store/redis/wire/errors.h"

static const struct dlk_redis_sock_events sock_events;
static void take_in(struct dlk_redis_conn *c, const char *over);

static int64_t now(struct dlk_redis_conn *c) {
  return c->host->now(c->host);
}

/* The one timer: an attempt's end, the pause's end, the oldest request's
 * time-out, or the time to close for idleness. Never moved to later. */
static void arm(struct dlk_redis_conn *c, int64_t at) {
  if (c->timer.node.queued && c->armed <= at)
    return;
  c->armed = at;
  c->host->timer_set(c->host, &c->timer, at);
}

static void enter(struct dlk_redis_conn *c, enum dlk_redis_conn_state state) {
  c->state = state;
  c->state_since = now(c);
  c->times.looked = false;
}

/* Whatever stands, or is being made. */
static void close_sock(struct dlk_redis_conn *c) {
  c->endpoint->forget(c->endpoint, &c->seeker);
  dlk_redis_sock_close(c->sock);
  c->sock = NULL;
  dlk_redis_pipe_close(&c->pipe);
  c->blocked = false;
}

static void start_pause(struct dlk_redis_conn *c) {
  c->failures++;
  enter(c, DLK_REDIS_PAUSE);
  c->host->timer_clear(c->host, &c->timer);
  uint16_t jitter;
  c->host->random(c->host, &jitter, sizeof jitter);
  arm(c, now(c) + dlk_redis_pause(c->failures, c->pause, jitter));
}

static void attempt_failed(struct dlk_redis_conn *c,
                           const struct dlk_error *given) {
  struct dlk_error why = *given;
  struct dlk_list flying, waiting;
  dlk_redis_pipe_take(&c->pipe, &flying);
  dlk_list_take(&c->pipe.waiting, &waiting);
  close_sock(c);
  c->why = why;
  start_pause(c);
  dlk_redis_pipe_end(&flying, DLK_REDIS_UNKNOWN, &why);
  dlk_redis_pipe_end(&waiting, DLK_REDIS_UNSENT, &why);
  c->events->failed(c, &why);
}

/* A connection that was ready is gone. */
static void discard(struct dlk_redis_conn *c, const struct dlk_error *given) {
  struct dlk_error why = *given;
  if (c->state < DLK_REDIS_READY) {
    attempt_failed(c, &why);
    return;
  }
  struct dlk_list flying;
  bool drained = c->state == DLK_REDIS_DRAINING;
  bool asked = !dlk_list_empty(&c->pipe.flying);
  dlk_redis_pipe_take(&c->pipe, &flying);
  close_sock(c);
  c->why = why;
  if (drained) {
    start_pause(c);
  } else {
    enter(c, DLK_REDIS_OFF);
    c->host->timer_clear(c->host, &c->timer);
  }
  c->events->broken(c, asked, &why);
  dlk_redis_pipe_end(&flying, DLK_REDIS_UNKNOWN, &why);
  dlk_redis_conn_wake(c);
}

static void discard_text(struct dlk_redis_conn *c, enum dlk_code code,
                         const char *text) {
  struct dlk_error why;
  dlk_error_set(&why, code, "%s: %s", c->conf->shown, text);
  discard(c, &why);
}

static void lost(struct dlk_redis_conn *c, const char *text) {
  struct dlk_error why;
  if (c->state == DLK_REDIS_HANDSHAKE && dlk_redis_pipe_turned_away(&c->pipe))
    dlk_redis_fault_error(&why, c->pipe.refused, c->conf->shown);
  else
    dlk_error_set(&why, DLK_UNAVAILABLE, "%s: %s", c->conf->shown, text);
  discard(c, &why);
}

/* Only a handshake can be refused: TLS 1.3 does so with the first answer. */
static void lost_reading(struct dlk_redis_conn *c, ssize_t n, int error) {
  char text[DLK_REDIS_WHY_MAX];
  const struct dlk_redis_req *r = dlk_redis_pipe_oldest(&c->pipe);
  bool first = c->state == DLK_REDIS_HANDSHAKE && r && r->got == 0;
  enum dlk_code code = dlk_redis_sock_reason(c->sock, n, error, first, text);
  if (first && !c->spoken_to && dlk_redis_sock_doubt(c->sock, text))
    return;
  if (c->state >= DLK_REDIS_READY || code == DLK_UNAVAILABLE)
    lost(c, text);
  else
    discard_text(c, code, text);
}

static void on_failed(void *arg, enum dlk_code code, const char *text) {
  struct dlk_redis_conn *c = arg;
  struct dlk_error why;
  dlk_redis_endpoint_error(c->endpoint, c->at, c->conf->shown, code, text,
                           &why);
  attempt_failed(c, &why);
}

static void allow_time(struct dlk_redis_conn *c) {
  c->host->timer_clear(c->host, &c->timer);
  c->times.until = dlk_time_add(now(c), c->conf->connect_timeout);
  arm(c, c->times.until);
}

/* An attempt goes to another address. What flies is the handshake. */
static void abandon(struct dlk_redis_conn *c) {
  dlk_redis_pipe_forget(&c->pipe);
  dlk_redis_sock_close(c->sock);
  c->sock = NULL;
  dlk_redis_pipe_close(&c->pipe);
  c->blocked = false;
  allow_time(c);
}

static void open_sock(struct dlk_redis_conn *c,
                      const struct dlk_redis_address *address) {
  char text[DLK_REASON_MAX];
  c->at = address;
  c->state = DLK_REDIS_OPENING; /* the time for connecting goes on */
  c->times.looked = false;
  c->times.sure = c->spoken_to || !address->tls;
  if (!c->times.sure)
    arm(c, dlk_time_add(now(c), DLK_REDIS_SPEECHLESS));
  c->sock =
      dlk_redis_sock_open(c->host->loop(c->host), address, c->conf->io_timeout,
                          &sock_events, c->events->gone, c->alive, c, text);
  if (!c->sock)
    on_failed(c, DLK_UNAVAILABLE, text);
}

static void on_located(struct dlk_redis_seeker *who,
                       const struct dlk_redis_address *address,
                       const struct dlk_error *why) {
  struct dlk_redis_conn *c = DLK_CONTAINER(who, struct dlk_redis_conn, seeker);
  if (!address) {
    if (c->state == DLK_REDIS_SEEKING)
      attempt_failed(c, why);
  } else if (c->state >= DLK_REDIS_READY) {
    lost(c, "another server is the primary now");
  } else {
    if (c->state != DLK_REDIS_SEEKING)
      abandon(c);
    open_sock(c, address);
  }
}

static void connect_now(struct dlk_redis_conn *c) {
  enter(c, DLK_REDIS_SEEKING);
  allow_time(c);
  c->endpoint->locate(c->endpoint, &c->seeker);
}

void dlk_redis_conn_wake(struct dlk_redis_conn *c) {
  if (c->state == DLK_REDIS_OFF &&
      (c->wanted || !dlk_list_empty(&c->pipe.waiting)))
    connect_now(c);
}

void dlk_redis_conn_submit(struct dlk_redis_conn *c, struct dlk_redis_req *r) {
  dlk_redis_pipe_submit(&c->pipe, r);
  /* Connecting is left to flush: an attempt that fails at once would end r
   * inside submit. */
}

bool dlk_redis_conn_withdraw(struct dlk_redis_conn *c,
                             struct dlk_redis_req *r) {
  return dlk_redis_pipe_withdraw(&c->pipe, r);
}

static void send_out(struct dlk_redis_conn *c) {
  while (c->pipe.out_at < c->pipe.out.len) {
    ssize_t n = dlk_redis_sock_send(c->sock, c->pipe.out.data + c->pipe.out_at,
                                    c->pipe.out.len - c->pipe.out_at);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      c->blocked = true;
      return;
    }
    if (n < 0) {
      take_in(c, strerror(errno));
      return;
    }
    c->pipe.out_at += (size_t)n;
  }
  dlk_buf_clear(&c->pipe.out);
  c->pipe.out_at = 0;
  c->blocked = false;
}

static void write_out(struct dlk_redis_conn *c) {
  if (c->pipe.out.failed)
    lost(c, "out of memory");
  else if (!c->blocked)
    send_out(c);
}

/* True: the connection was closed while we were away. */
static bool closed_meanwhile(struct dlk_redis_conn *c, int64_t at) {
  bool only_once = dlk_redis_pipe_has_only_once(&c->pipe);
  if (!dlk_list_empty(&c->pipe.flying) ||
      !dlk_redis_may_be_closed(at - c->times.used, only_once))
    return false;
  char byte;
  ssize_t n = dlk_redis_sock_recv(c->sock, &byte, 1);
  /* A byte that nobody asked for is no better than an end. */
  return n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

void dlk_redis_conn_flush(struct dlk_redis_conn *c) {
  if (c->state == DLK_REDIS_OFF)
    dlk_redis_conn_wake(c);
  if (c->state != DLK_REDIS_READY || dlk_list_empty(&c->pipe.waiting))
    return;
  int64_t at = now(c);
  if (!c->events->push && closed_meanwhile(c, at)) {
    lost(c, "the server closed the connection");
    return;
  }
  dlk_redis_durable_write(&c->durable, at);
  c->times.used = at;
  arm(c, dlk_time_add(at, c->conf->io_timeout));
  write_out(c);
}

void dlk_redis_conn_ready(struct dlk_redis_conn *c) {
  enter(c, DLK_REDIS_READY);
  c->spoken_to = true;
  c->times.used = c->state_since;
  c->failures = 0;
  c->times.asked = false;
  c->endpoint->settle(c->endpoint, &c->seeker);
  c->host->timer_clear(c->host, &c->timer);
  arm(c, dlk_time_add(c->times.used, c->events->push ? DLK_REDIS_SILENCE
                                                     : DLK_REDIS_IDLE_CLOSE));
}

void dlk_redis_conn_refuse(struct dlk_redis_conn *c,
                           const struct dlk_error *why) {
  attempt_failed(c, why);
}

void dlk_redis_conn_off(struct dlk_redis_conn *c) {
  if (c->state == DLK_REDIS_STOPPED)
    return;
  dlk_redis_pipe_forget(&c->pipe); /* a handshake, perhaps */
  close_sock(c);
  c->host->timer_clear(c->host, &c->timer);
  enter(c, DLK_REDIS_OFF);
}

void dlk_redis_conn_retreat(struct dlk_redis_conn *c,
                            const struct dlk_error *why) {
  if (c->state != DLK_REDIS_READY)
    return;
  c->why = *why;
  c->state = DLK_REDIS_DRAINING;
}

/* Called after each batch of replies, when nobody depends on the state. */
static void drained(struct dlk_redis_conn *c) {
  if (c->state == DLK_REDIS_DRAINING && dlk_list_empty(&c->pipe.flying))
    discard(c, &c->why);
}

static void broken_protocol(struct dlk_redis_conn *c) {
  if (dlk_redis_pipe_starved(&c->pipe))
    discard_text(c, DLK_UNAVAILABLE, "out of memory");
  else if (c->state < DLK_REDIS_READY)
    discard_text(c, DLK_INVALID,
                 "what answers there is not a Redis server, or wants TLS "
                 "(rediss://); check host and port");
  else
    lost(c, "the server's answer broke the protocol");
}

static void sign_of_life(struct dlk_redis_conn *c) {
  c->times.used = now(c);
  if (c->times.asked)
    arm(c, dlk_time_add(c->times.used, DLK_REDIS_SILENCE));
  c->times.asked = false;
}

/* Gives what the bytes complete. False: the connection is another one now. */
static bool feed(struct dlk_redis_conn *c, const char *p, size_t n) {
  struct dlk_redis_sock *sock = c->sock;
  dlk_redis_pipe_feed(&c->pipe, p, n);
  for (;;) {
    void *reply;
    if (!dlk_redis_pipe_next(&c->pipe, &reply)) {
      broken_protocol(c);
      return false;
    }
    if (!reply)
      return true;
    c->times.looked = false;
    if (c->events->push)
      sign_of_life(c);
    bool kept, asked = dlk_redis_pipe_answer(&c->pipe, reply, &kept);
    if (!asked && c->events->push)
      c->events->push(c, reply);
    if (!kept)
      dlk_redis_pipe_drop(&c->pipe, reply);
    if (!asked && !c->events->push) {
      broken_protocol(c);
      return false;
    }
    if (c->sock != sock)
      return false;
  }
}

/* over: NULL, or why nothing will come behind what can be read now. */
static void take_in(struct dlk_redis_conn *c, const char *over) {
  char bytes[16384];
  for (;;) {
    ssize_t n = dlk_redis_sock_recv(c->sock, bytes, sizeof bytes);
    bool empty = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (empty && !over)
      break;
    if (n <= 0) {
      if (empty)
        lost(c, over);
      else
        lost_reading(c, n, errno);
      return;
    }
    if (!feed(c, bytes, (size_t)n))
      return;
    if ((size_t)n < sizeof bytes && !over)
      break;
  }
  drained(c);
}

bool dlk_redis_conn_await(struct dlk_redis_conn *c) {
  char bytes[16384];
  const struct dlk_list *flying = &c->pipe.flying;
  if (c->state != DLK_REDIS_READY || c->blocked || dlk_list_empty(flying) ||
      flying->next != flying->prev || !dlk_list_empty(&c->pipe.waiting))
    return false;
  ssize_t n = dlk_redis_sock_await(c->sock, bytes, sizeof bytes);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
    return false;
  if (n <= 0)
    lost_reading(c, n, errno);
  else if (feed(c, bytes, (size_t)n))
    drained(c);
  return true;
}

static void on_readable(void *arg) {
  take_in(arg, NULL);
}
static void on_broken(void *arg) {
  take_in(arg, "the connection broke");
}

static void on_writable(void *arg) {
  send_out(arg);
}

void dlk_redis_conn_say(struct dlk_redis_conn *c, struct dlk_redis_req *r) {
  dlk_redis_pipe_write(&c->pipe, r, now(c));
  write_out(c);
}

static void on_open(void *arg) {
  struct dlk_redis_conn *c = arg;
  enter(c, DLK_REDIS_HANDSHAKE);
  if (dlk_redis_pipe_open(&c->pipe))
    dlk_redis_conn_say(c, c->events->handshake(c));
  else
    lost(c, "out of memory");
}

static const struct dlk_redis_sock_events sock_events = {
    on_open, on_failed, on_readable, on_writable, on_broken};

/* ---- time ---- */

static void ask_sign_of_life(struct dlk_redis_conn *c) {
  static const char ping[] = "*1\r\n$4\r\nPING\r\n";
  dlk_buf_add(&c->pipe.out, ping, sizeof ping - 1);
  write_out(c);
}

static void on_timer(struct dlk_timer *timer, int64_t at) {
  struct dlk_redis_conn *c = DLK_CONTAINER(timer, struct dlk_redis_conn, timer);
  const struct dlk_redis_req *oldest = dlk_redis_pipe_oldest(&c->pipe);
  bool listens = c->events->push != NULL;
  struct dlk_redis_due due = dlk_redis_due(
      &c->times,
      &(struct dlk_redis_moment){.state = c->state,
                                 .at = at,
                                 .oldest = oldest ? oldest->sent : -1,
                                 .io_timeout = c->conf->io_timeout,
                                 .listens = listens,
                                 .needed = listens && c->events->needed(c),
                                 .wanted = c->wanted});
  switch (due.deed) {
  case DLK_REDIS_DOUBT:
    (void)dlk_redis_sock_doubt(c->sock, NULL);
    /* fall through */
  case DLK_REDIS_SLEEP:
    arm(c, due.next);
    break;
  case DLK_REDIS_GIVE_UP:
    lost(c, dlk_redis_sock_late(c->sock, due.why));
    break;
  case DLK_REDIS_PROBE_LIFE:
    arm(c, due.next);
    ask_sign_of_life(c);
    break;
  case DLK_REDIS_CLOSE:
    dlk_redis_conn_off(c);
    break;
  case DLK_REDIS_REOPEN:
    enter(c, DLK_REDIS_OFF);
    dlk_redis_conn_wake(c);
    break;
  case DLK_REDIS_NOTHING:
    break;
  }
}

void dlk_redis_conn_init(struct dlk_redis_conn *c) {
  dlk_redis_pipe_init(&c->pipe);
  c->durable.pipe = &c->pipe;
  c->timer.fire = on_timer;
  c->seeker.located = on_located;
  dlk_list_init(&c->seeker.entry);
  c->state = DLK_REDIS_OFF;
}

void dlk_redis_conn_free(struct dlk_redis_conn *c) {
  dlk_redis_pipe_free(&c->pipe);
}

void dlk_redis_conn_stop(struct dlk_redis_conn *c) {
  struct dlk_error why;
  struct dlk_list flying, waiting;
  if (c->state == DLK_REDIS_STOPPED)
    return;
  dlk_redis_pipe_take(&c->pipe, &flying);
  dlk_list_take(&c->pipe.waiting, &waiting);
  close_sock(c);
  c->host->timer_clear(c->host, &c->timer);
  enter(c, DLK_REDIS_STOPPED);
  dlk_error_set(&why, DLK_CLOSED, "the store was closed");
  dlk_redis_pipe_end(&flying, DLK_REDIS_UNKNOWN, &why);
  dlk_redis_pipe_end(&waiting, DLK_REDIS_UNSENT, &why);
}
