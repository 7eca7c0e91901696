/* What is read and written on a connection, and when. Its states, and what
 * becomes of requests when it ends, stand in lifetime.c.
 *
 * - Nothing but the handshake's requests flies in the state HANDSHAKE.
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
#include <string.h>

#include "store/redis/conn/lifetime.h"

static void take_in(struct dlk_redis_conn *c, const char *over);

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
    ssize_t n = dlk_net_sock_send(c->sock, c->pipe.out.data + c->pipe.out_at,
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
    dlk_redis_life_lost(c, "out of memory");
  else if (!c->blocked)
    send_out(c);
}

/* True: the connection was closed while we were away. */
static bool closed_meanwhile(struct dlk_redis_conn *c, int64_t at) {
  bool only_once = dlk_redis_pipe_has_only_once(&c->pipe);
  if (!dlk_list_empty(&c->pipe.flying) ||
      !dlk_net_may_be_closed(at - c->times.used, only_once))
    return false;
  char byte;
  ssize_t n = dlk_net_sock_recv(c->sock, &byte, 1);
  /* A byte that nobody asked for is no better than an end. */
  return n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

void dlk_redis_conn_flush(struct dlk_redis_conn *c) {
  if (c->state == DLK_NET_OFF)
    dlk_redis_conn_wake(c);
  if (c->state != DLK_NET_READY || dlk_list_empty(&c->pipe.waiting) ||
      c->durable.waits)
    return;
  int64_t at = dlk_redis_life_now(c);
  if (!c->events->push && closed_meanwhile(c, at)) {
    dlk_redis_life_lost(c, "the server closed the connection");
    return;
  }
  dlk_redis_durable_write(&c->durable, at);
  c->times.used = at;
  dlk_redis_life_arm(c, dlk_time_add(at, c->conf->io_timeout));
  write_out(c);
}

static void broken_protocol(struct dlk_redis_conn *c) {
  if (dlk_redis_pipe_starved(&c->pipe))
    dlk_redis_life_discard(c, DLK_UNAVAILABLE, "out of memory");
  else if (c->state < DLK_NET_READY)
    dlk_redis_life_discard(
        c, DLK_INVALID,
        c->at->tls ? "what answers there is not a Redis server; check host and "
                     "port"
                   : "what answers there is not a Redis server, or wants TLS "
                     "(rediss://, rediss+sentinel://); check host and port");
  else
    dlk_redis_life_lost(c, "the server's answer broke the protocol");
}

static void sign_of_life(struct dlk_redis_conn *c) {
  c->times.used = dlk_redis_life_now(c);
  if (c->times.asked)
    dlk_redis_life_arm(c, dlk_time_add(c->times.used, DLK_NET_SILENCE));
  c->times.asked = false;
}

/* Gives what the bytes complete. False: the connection is another one now. */
static bool feed(struct dlk_redis_conn *c, const char *p, size_t n) {
  struct dlk_net_sock *sock = c->sock;
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
    ssize_t n = dlk_net_sock_recv(c->sock, bytes, sizeof bytes);
    bool empty = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (empty && !over)
      break;
    if (n <= 0) {
      if (empty)
        dlk_redis_life_lost(c, over);
      else
        dlk_redis_life_lost_reading(c, n, errno);
      return;
    }
    if (!feed(c, bytes, (size_t)n))
      return;
    if ((size_t)n < sizeof bytes && !over)
      break;
  }
  dlk_redis_life_drained(c);
}

bool dlk_redis_conn_await(struct dlk_redis_conn *c) {
  char bytes[16384];
  const struct dlk_list *flying = &c->pipe.flying;
  if (c->state != DLK_NET_READY || c->blocked || dlk_list_empty(flying) ||
      flying->next != flying->prev || !dlk_list_empty(&c->pipe.waiting))
    return false;
  ssize_t n = dlk_net_sock_await(c->sock, bytes, sizeof bytes);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
    return false;
  if (n <= 0)
    dlk_redis_life_lost_reading(c, n, errno);
  else if (feed(c, bytes, (size_t)n)) {
    /* Of what is left behind a full read no poll may tell (secure.c). */
    if ((size_t)n == sizeof bytes)
      take_in(c, NULL);
    else
      dlk_redis_life_drained(c);
  }
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
  dlk_redis_pipe_write(&c->pipe, r, dlk_redis_life_now(c));
  write_out(c);
}

static void on_open(void *arg) {
  struct dlk_redis_conn *c = arg;
  dlk_redis_life_enter(c, DLK_NET_HANDSHAKE);
  if (dlk_redis_pipe_open(&c->pipe))
    dlk_redis_conn_say(c, c->events->handshake(c));
  else
    dlk_redis_life_lost(c, "out of memory");
}

static const struct dlk_net_sock_events sock_events = {
    on_open, dlk_redis_life_failed, on_readable, on_writable, on_broken};

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
  struct dlk_net_due due = dlk_net_due(
      &c->times, &(struct dlk_net_moment){.state = c->state,
                                          .at = at,
                                          .oldest = oldest ? oldest->sent : -1,
                                          .io_timeout = c->conf->io_timeout,
                                          .listens = listens,
                                          .needed = c->events->needed &&
                                                    c->events->needed(c),
                                          .wanted = c->wanted});
  switch (due.deed) {
  case DLK_NET_SLEEP:
    dlk_redis_life_arm(c, due.next);
    break;
  case DLK_NET_GIVE_UP:
    dlk_net_sock_note(c->sock);
    dlk_redis_life_lost(c, dlk_net_sock_late(c->sock, due.why));
    break;
  case DLK_NET_PROBE_LIFE:
    dlk_redis_life_arm(c, due.next);
    ask_sign_of_life(c);
    break;
  case DLK_NET_CLOSE:
    dlk_redis_conn_off(c);
    break;
  case DLK_NET_REOPEN:
    dlk_redis_life_enter(c, DLK_NET_OFF);
    dlk_redis_conn_wake(c);
    break;
  case DLK_NET_NOTHING:
    break;
  }
}

void dlk_redis_conn_init(struct dlk_redis_conn *c) {
  dlk_redis_pipe_init(&c->pipe);
  c->durable.pipe = &c->pipe;
  c->timer.fire = on_timer;
  c->seeker.located = dlk_redis_life_located;
  c->sock_events = &sock_events;
  dlk_list_init(&c->seeker.entry);
  c->state = DLK_NET_OFF;
}

void dlk_redis_conn_free(struct dlk_redis_conn *c) {
  dlk_redis_pipe_free(&c->pipe);
}
