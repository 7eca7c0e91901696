/* Invariants:
 * - Any time-out, protocol error or write error discards the connection:
 *   after a time-out the next reply would belong to the last command. What
 *   flew ends as UNKNOWN, and `broken` is told so before, so that the next
 *   handshake has the server drop the old connection first.
 * - When an attempt fails, everything that waits ends as UNSENT: whoever still
 *   wants an answer submits again and so waits for the next attempt, which
 *   comes after a pause that grows to a second.
 * - A connection that ends is made anew at once, if it stood for a second; else
 *   only the first time. Somebody may end each of them as soon as it is ready,
 *   and a handshake is the most that we ask of a server.
 *
 * Who is told of an end may submit, wake or stop: so the state is the next one
 * before anybody is told, and what is told of lies in a list of its own. */
#include "store/redis/conn/lifetime.h"

#include <string.h>

#include "store/redis/wire/errors.h"

#define STANDS DLK_SEC

void dlk_redis_life_enter(struct dlk_redis_conn *c,
                          enum dlk_net_conn_state state) {
  c->state = state;
  c->state_since = dlk_redis_life_now(c);
  c->times.looked = false;
}

static bool stood(const struct dlk_redis_conn *c) {
  return c->state >= DLK_NET_READY &&
         dlk_redis_life_now(c) - c->state_since >= STANDS;
}

/* Whatever stands, or is being made. */
static void close_sock(struct dlk_redis_conn *c) {
  c->endpoint->forget(c->endpoint, &c->seeker);
  dlk_net_sock_close(c->sock);
  c->sock = NULL;
  dlk_redis_pipe_close(&c->pipe);
  c->blocked = false;
}

static void start_pause(struct dlk_redis_conn *c) {
  c->failures++;
  dlk_redis_life_enter(c, DLK_NET_PAUSE);
  c->host->timer_clear(c->host, &c->timer);
  uint16_t jitter;
  c->host->random(c->host, &jitter, sizeof jitter);
  dlk_redis_life_arm(c, dlk_redis_life_now(c) +
                            dlk_net_pause(c->failures, c->pause, jitter));
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
  if (c->state < DLK_NET_READY) {
    attempt_failed(c, &why);
    return;
  }
  struct dlk_list flying;
  bool drained = c->state == DLK_NET_DRAINING;
  bool lasting = stood(c);
  bool asked = !dlk_list_empty(&c->pipe.flying);
  dlk_redis_pipe_take(&c->pipe, &flying);
  close_sock(c);
  c->why = why;
  if (lasting)
    c->failures = 0;
  if (drained || c->failures > 0) {
    start_pause(c);
  } else {
    c->failures = !lasting;
    dlk_redis_life_enter(c, DLK_NET_OFF);
    c->host->timer_clear(c->host, &c->timer);
  }
  c->events->broken(c, asked, &why);
  dlk_redis_pipe_end(&flying, DLK_REDIS_UNKNOWN, &why);
  dlk_redis_conn_wake(c);
}

struct dlk_net_server_text dlk_redis_life_name(const struct dlk_redis_conn *c) {
  return dlk_net_server_text(c->conf->shown, c->endpoint->role, c->at);
}

void dlk_redis_life_discard(struct dlk_redis_conn *c, enum dlk_code code,
                            const char *text) {
  struct dlk_error why;
  dlk_error_set(&why, code, "%s: %s", dlk_redis_life_name(c).text, text);
  discard(c, &why);
}

/* To whoever comes; or it repeats what AUTH, which is said first, told it. */
static void turned_away(struct dlk_redis_conn *c, struct dlk_error *why) {
  struct dlk_net_server_text name = dlk_redis_life_name(c);
  if (dlk_redis_pipe_oldest(&c->pipe)->secret)
    dlk_redis_fault_unquoted(why, c->pipe.refused, name.text, "AUTH");
  else
    dlk_redis_fault_error(why, c->pipe.refused, name.text);
}

void dlk_redis_life_lost(struct dlk_redis_conn *c, const char *text) {
  struct dlk_error why;
  const struct dlk_redis_req *oldest = dlk_redis_pipe_oldest(&c->pipe);
  bool shaking = c->state == DLK_NET_HANDSHAKE && oldest;
  char said[DLK_REDIS_QUOTE_MAX];
  if (shaking && dlk_redis_pipe_turned_away(&c->pipe))
    turned_away(c, &why);
  else if (shaking && c->pipe.refused[0] && !oldest->secret)
    dlk_error_set(&why, DLK_UNAVAILABLE,
                  "%s: %s, after it had answered \"%.80s\"",
                  dlk_redis_life_name(c).text, text,
                  dlk_redis_fault_quote(c->pipe.refused, said));
  else
    dlk_error_set(&why, DLK_UNAVAILABLE, "%s: %s", dlk_redis_life_name(c).text,
                  text);
  discard(c, &why);
}

/* Only a handshake can be refused: TLS 1.3 does so with the first answer. */
void dlk_redis_life_lost_reading(struct dlk_redis_conn *c, ssize_t n,
                                 int error) {
  char text[DLK_NET_WHY_MAX];
  const struct dlk_redis_req *r = dlk_redis_pipe_oldest(&c->pipe);
  bool first = c->state == DLK_NET_HANDSHAKE && r && r->got == 0;
  enum dlk_code code = dlk_net_sock_reason(c->sock, n, error, first, text);
  if (c->state >= DLK_NET_READY || code == DLK_UNAVAILABLE)
    dlk_redis_life_lost(c, text);
  else
    dlk_redis_life_discard(c, code, text);
}

void dlk_redis_life_failed(void *arg, enum dlk_code code, const char *text) {
  struct dlk_redis_conn *c = arg;
  struct dlk_error why;
  dlk_error_set(&why, code, "%s: %s", dlk_redis_life_name(c).text, text);
  attempt_failed(c, &why);
}

static void allow_time(struct dlk_redis_conn *c) {
  c->host->timer_clear(c->host, &c->timer);
  c->times.until =
      dlk_time_add(dlk_redis_life_now(c), c->conf->connect_timeout);
  dlk_redis_life_arm(c, c->times.until);
}

/* An attempt goes to another address. What flies is the handshake. */
static void abandon(struct dlk_redis_conn *c) {
  dlk_redis_pipe_forget(&c->pipe);
  dlk_net_sock_close(c->sock);
  c->sock = NULL;
  dlk_redis_pipe_close(&c->pipe);
  c->blocked = false;
  allow_time(c);
}

static void open_sock(struct dlk_redis_conn *c,
                      const struct dlk_net_address *address) {
  char text[DLK_REASON_MAX];
  int error = 0;
  c->at = address;
  c->state = DLK_NET_OPENING; /* the time for connecting goes on */
  c->times.looked = false;
  c->sock = dlk_net_sock_open(c->host->loop(c->host), address, &c->silent,
                              c->conf->io_timeout, c->sock_events,
                              c->events->gone, c->alive, c, &error);
  if (!c->sock)
    dlk_redis_life_failed(c, dlk_net_sock_code(error), dlk_reason(text, error));
}

void dlk_redis_life_located(struct dlk_net_seeker *who,
                            const struct dlk_net_address *address,
                            const struct dlk_error *why) {
  struct dlk_redis_conn *c = DLK_CONTAINER(who, struct dlk_redis_conn, seeker);
  if (!address) {
    if (c->state == DLK_NET_SEEKING)
      attempt_failed(c, why);
  } else if (c->state >= DLK_NET_READY) {
    struct dlk_error moved; /* the address is the new one's already */
    dlk_error_set(&moved, DLK_UNAVAILABLE,
                  "%s: another server is the primary now", c->conf->shown);
    c->failures = 0; /* the others have nothing to do with it */
    discard(c, &moved);
  } else {
    if (c->state != DLK_NET_SEEKING)
      abandon(c);
    open_sock(c, address);
  }
}

static void connect_now(struct dlk_redis_conn *c) {
  dlk_redis_life_enter(c, DLK_NET_SEEKING);
  allow_time(c);
  c->endpoint->locate(c->endpoint, &c->seeker);
}

void dlk_redis_conn_wake(struct dlk_redis_conn *c) {
  if (c->state == DLK_NET_OFF &&
      (c->wanted || !dlk_list_empty(&c->pipe.waiting)))
    connect_now(c);
}

void dlk_redis_conn_ready(struct dlk_redis_conn *c) {
  dlk_redis_life_enter(c, DLK_NET_READY);
  c->times.used = c->state_since;
  c->times.asked = false;
  c->endpoint->settle(c->endpoint, &c->seeker);
  c->host->timer_clear(c->host, &c->timer);
  dlk_redis_life_arm(c, dlk_time_add(c->times.used, c->events->push
                                                        ? DLK_NET_SILENCE
                                                        : DLK_NET_IDLE_CLOSE));
}

void dlk_redis_conn_refuse(struct dlk_redis_conn *c,
                           const struct dlk_error *why) {
  attempt_failed(c, why);
}

void dlk_redis_conn_off(struct dlk_redis_conn *c) {
  if (c->state == DLK_NET_STOPPED)
    return;
  if (stood(c))
    c->failures = 0;
  dlk_redis_pipe_forget(&c->pipe); /* a handshake, perhaps */
  close_sock(c);
  c->host->timer_clear(c->host, &c->timer);
  dlk_redis_life_enter(c, DLK_NET_OFF);
}

void dlk_redis_conn_retreat(struct dlk_redis_conn *c,
                            const struct dlk_error *why) {
  if (c->state != DLK_NET_READY)
    return;
  c->why = *why;
  c->state = DLK_NET_DRAINING;
}

void dlk_redis_life_answered(struct dlk_redis_conn *c) {
  if (dlk_list_empty(&c->pipe.flying))
    discard(c, &c->why);
}

void dlk_redis_conn_stop(struct dlk_redis_conn *c) {
  struct dlk_error why;
  struct dlk_list flying, waiting;
  if (c->state == DLK_NET_STOPPED)
    return;
  dlk_redis_pipe_take(&c->pipe, &flying);
  dlk_list_take(&c->pipe.waiting, &waiting);
  close_sock(c);
  c->host->timer_clear(c->host, &c->timer);
  dlk_redis_life_enter(c, DLK_NET_STOPPED);
  dlk_error_set(&why, DLK_CLOSED, "the store was closed");
  dlk_redis_pipe_end(&flying, DLK_REDIS_UNKNOWN, &why);
  dlk_redis_pipe_end(&waiting, DLK_REDIS_UNSENT, &why);
}
