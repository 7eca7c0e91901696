/* I1  In HANDSHAKE only the handshake's requests fly.
 * I2  `sent` is read before the bytes are made, so a lease that counts from it
 *     is never too long.
 * I3  Requests under way end as UNKNOWN with their connection, after `broken`:
 *     so the next handshake kills the old connection before any is sent again.
 * I4  A callback may submit, wake or stop, so requests that end lie in a list
 *     of their own. */
#include "store/redis/conn/conn.h"

#include "store/redis/wire/errors.h"

static struct dlk_redis_conn *of(struct dlk_net_conn *n) {
  return (struct dlk_redis_conn *)(void *)n;
}

void dlk_redis_conn_flush(struct dlk_redis_conn *c) {
  dlk_net_conn_wake(&c->net);
  if (c->net.state != DLK_NET_READY || dlk_list_empty(&c->pipe.waiting) ||
      c->durable.waits)
    return;
  int64_t at = dlk_net_conn_now(&c->net);
  if (!dlk_net_conn_usable(&c->net, at, dlk_redis_pipe_has_only_once(&c->pipe)))
    return;
  dlk_redis_durable_write(&c->durable, at);
  dlk_net_conn_asked(&c->net, at);
}

void dlk_redis_conn_say(struct dlk_redis_conn *c, struct dlk_redis_req *r) {
  dlk_redis_pipe_write(&c->pipe, r, dlk_net_conn_now(&c->net));
  dlk_net_conn_send(&c->net);
}

bool dlk_redis_conn_await(struct dlk_redis_conn *c) {
  const struct dlk_list *flying = &c->pipe.flying;
  return !dlk_list_empty(flying) && flying->next == flying->prev &&
         dlk_list_empty(&c->pipe.waiting) && dlk_net_conn_await(&c->net);
}

/* ---- the protocol ---- */

static bool greet(struct dlk_net_conn *n) {
  struct dlk_redis_conn *c = of(n);
  if (!dlk_redis_pipe_open(&c->pipe))
    return false;
  dlk_redis_pipe_write(&c->pipe, c->events->handshake(c), dlk_net_conn_now(n));
  return true;
}

#define DLK_TLS                                                                \
  "rediss:// (or rediss+sentinel://, rediss+cluster://, redlocks://)"

static void broken_protocol(struct dlk_redis_conn *c) {
  if (dlk_redis_pipe_starved(&c->pipe))
    dlk_net_conn_discard(&c->net, DLK_UNAVAILABLE, "out of memory");
  else if (c->net.state < DLK_NET_READY)
    dlk_net_conn_discard(
        &c->net, DLK_INVALID,
        c->net.at->tls
            ? "what answers there is not a Redis server; check host and port"
            : "what answers there is not a Redis server, or wants TLS: "
              "use " DLK_TLS "; check host and port");
  else
    dlk_net_conn_lost(&c->net, "the server's answer broke the protocol");
}

static bool take(struct dlk_net_conn *n, const char *bytes, size_t len) {
  struct dlk_redis_conn *c = of(n);
  const struct dlk_net_sock *sock = n->sock;
  dlk_redis_pipe_feed(&c->pipe, bytes, len);
  for (;;) {
    void *reply;
    if (!dlk_redis_pipe_next(&c->pipe, &reply)) {
      broken_protocol(c);
      return false;
    }
    if (!reply)
      return true;
    bool kept, asked = dlk_redis_pipe_answer(&c->pipe, reply, &kept);
    if (!asked && c->events->push)
      c->events->push(c, reply);
    if (!kept)
      dlk_redis_pipe_drop(&c->pipe, reply);
    if (!asked && !c->events->push) {
      broken_protocol(c);
      return false;
    }
    if (n->sock != sock)
      return false;
  }
}

static void closed(struct dlk_net_conn *n) {
  struct dlk_redis_conn *c = of(n);
  if (n->state < DLK_NET_READY)
    dlk_redis_pipe_forget(&c->pipe);
  dlk_redis_pipe_close(&c->pipe);
}

static void broken(struct dlk_net_conn *n, const struct dlk_error *why) {
  struct dlk_redis_conn *c = of(n);
  struct dlk_list flying;
  bool asked = !dlk_list_empty(&c->pipe.flying);
  dlk_redis_pipe_take(&c->pipe, &flying);
  if (c->events->broken)
    c->events->broken(c, asked, why);
  dlk_redis_pipe_end(&flying, DLK_REDIS_UNKNOWN, why);
}

static void failed(struct dlk_net_conn *n, const struct dlk_error *why) {
  struct dlk_redis_conn *c = of(n);
  struct dlk_list flying, waiting;
  bool stopped = n->state == DLK_NET_STOPPED;
  dlk_redis_pipe_take(&c->pipe, &flying);
  dlk_list_take(&c->pipe.waiting, &waiting);
  dlk_redis_pipe_end(&flying, DLK_REDIS_UNKNOWN, why);
  dlk_redis_pipe_end(&waiting, DLK_REDIS_UNSENT, why);
  if (!stopped && c->events->failed)
    c->events->failed(c, why);
}

static bool waits(const struct dlk_net_conn *n) {
  return !dlk_list_empty(&((const struct dlk_redis_conn *)n)->pipe.waiting);
}

static int64_t oldest(const struct dlk_net_conn *n) {
  const struct dlk_redis_req *r =
      dlk_redis_pipe_oldest(&((const struct dlk_redis_conn *)n)->pipe);
  return r ? r->sent : -1;
}

static bool needed(struct dlk_net_conn *n) {
  struct dlk_redis_conn *c = of(n);
  return c->events->needed ? c->events->needed(c) : n->wanted;
}

/* A server may say one line and hang up, as it does to each client (maxclients,
 * protected mode): that is believed, and may repeat AUTH. A missing right is no
 * such line, since the handshake goes on behind it. */
static bool explain(struct dlk_net_conn *n, const char *text,
                    struct dlk_error *why) {
  struct dlk_redis_pipe *p = &of(n)->pipe;
  struct dlk_net_server_text name = dlk_net_conn_name(n);
  const struct dlk_redis_req *r = dlk_redis_pipe_oldest(p);
  char said[DLK_REDIS_QUOTE_MAX];
  if (!r || !p->refused[0])
    return false;
  bool turned_away = r->got == 1 && !dlk_redis_fault_is_denial(p->refused);
  if (turned_away && r->secret)
    dlk_redis_fault_unquoted(why, p->refused, name.text, "AUTH");
  else if (turned_away)
    dlk_redis_fault_error(why, p->refused, name.text);
  else if (!r->secret)
    dlk_error_set(why, DLK_UNAVAILABLE,
                  "%s: %s, after it had answered \"%.80s\"", name.text, text,
                  dlk_redis_fault_quote(p->refused, said));
  return turned_away || !r->secret;
}

static const struct dlk_net_protocol resp = {
    .greet = greet,
    .take = take,
    .closed = closed,
    .broken = broken,
    .failed = failed,
    .waits = waits,
    .oldest = oldest,
    .needed = needed,
    .explain = explain,
    .ping = "*1\r\n$4\r\nPING\r\n",
    .mute = "accepts connections but does not answer; is it Redis?",
    .hung_up = " at the first command; if it wants TLS, use " DLK_TLS
               "; if it is a proxy, use the server itself"};

void dlk_redis_conn_init(struct dlk_redis_conn *c, struct dlk_host *host,
                         const struct dlk_conf *conf,
                         struct dlk_net_endpoint *endpoint,
                         const struct dlk_redis_conn_events *events,
                         void *arg) {
  dlk_net_conn_init(&c->net);
  dlk_redis_pipe_init(&c->pipe, &c->net.out);
  c->durable.pipe = &c->pipe;
  c->net.host = host;
  c->net.conf = conf;
  c->net.endpoint = endpoint;
  c->net.protocol = &resp;
  c->net.connect_timeout = conf->connect_timeout;
  c->net.gone = events->gone;
  c->net.listens = events->push != NULL;
  c->events = events;
  c->arg = arg;
}
