/* Two connections to one server: for commands, and for messages.
 *
 *   NEW      -> RUNNING    start: the first request or subscription
 *   RUNNING  -> STOPPING   link_stop
 *   STOPPING -> STOPPED    gone: nothing of it is left in the loop
 *   NEW      -> STOPPING   link_stop
 *
 * I1  No request of a lost connection runs later: a delayed SET NX could land
 *     after its clean-up. So CLIENT KILL ID of the lost ones follows the
 *     handshake, before any request. Another run id makes their ids void. If
 *     the run id or KILL is refused, `may_linger` is set.
 * I2  While a lease is held or waited for, the connection for commands
 *     reconnects at once and never closes as idle. If another process answers
 *     (`moved`), all leases are renewed there: one that it lacks is lost now,
 *     not at its next renewal.
 * I3  Messages come from the process that answers commands: publish.lua reaches
 *     that one's listeners only. Several servers may share the address, and a
 *     demoted one keeps its subscriptions. When commands connect, a
 *     subscription elsewhere ends before any request. When messages connect
 *     elsewhere, they pause and retry. Without a run id, each new connection
 *     for commands renews the other. The server takes back a hand-off without a
 *     listener, so only speed rests on I3.
 *
 * I4  On a node of a cluster from 7.0 on, each slot has a channel of its own
 *     (SSUBSCRIBE). Messages come between the answers, so an acknowledgement
 *     goes by its channel, and an error means all slots without one.
 *
 * A flush before the loop sleeps and one after it woke put a turn's requests
 * into one write. */
#include "store/redis/conn/net.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "net/event.h"
#include "store/redis/conn/conn.h"
#include "store/redis/conn/handshake.h"
#include "store/redis/conn/sentinel.h"
#include "store/redis/wire/codec.h"
#include "store/redis/wire/errors.h"
#include "store/redis/wire/reply.h"

/* between two attempts at most, if the endpoint `changes` */
#define PAUSE (250 * DLK_MS)

enum link_state { NEW, RUNNING, STOPPING, STOPPED };

/* warn_replicas makes each transition. */
enum replicas {
  ENOUGH,
  SCARCE, /* too few to confirm */
  FEWER   /* wait_replicas is below their number */
};

struct net {
  struct dlk_redis_link link; /* first */
  struct dlk_host *host;
  const struct dlk_redis_link_events *events;
  void *arg;
  struct dlk_net_endpoint *endpoint;
  struct dlk_redis_conn cmd, sub;
  struct dlk_net_wake own_wake, *wake;
  int wake_at;
  bool hooked; /* flushes by itself */
  struct dlk_redis_handshake hello, hello_sub;
  struct dlk_redis_req kill_req;
  int64_t id, kills[DLK_REDIS_KILLS];
  char run_id[DLK_REDIS_RUN_ID];
  unsigned kill_count, alive;
  enum link_state state;
  bool subscribed, warned, moved, busy;
  struct dlk_redis_slots asked, acknowledged; /* by SSUBSCRIBE */
  enum replicas replicas;                     /* as the last event said */
  bool told_unknown; /* an event said that the Sentinels refuse to count */
  uv_prepare_t prepare;
  uv_check_t check;
};

static struct net *net_of(struct dlk_redis_link *link) {
  return (struct net *)(void *)link;
}

static void gone(void *arg) {
  struct dlk_redis_conn *c = arg;
  struct net *n = c->arg;
  if (n->alive || n->state != STOPPING)
    return;
  n->state = STOPPED;
  n->events->stopped(n->arg);
}

static struct dlk_redis_req *handshake(struct dlk_redis_conn *c) {
  struct net *n = c->arg;
  struct dlk_redis_handshake *g = c == &n->cmd ? &n->hello : &n->hello_sub;
  dlk_redis_handshake_start(g, c);
  return &g->req;
}

/* ---- the command connection ---- */

/* Keeps the loop running without a caller until commands connect again. */
static void want_back(struct net *n, bool wanted) {
  n->cmd.net.wanted = wanted;
  if (n->busy != wanted)
    n->host->busy(n->host, wanted ? 1 : -1);
  n->busy = wanted;
}

static void watch_messages(struct net *n, int fd) {
  dlk_net_wake_set(n->wake, n->wake_at + DLK_NET_WAKE_MESSAGES, fd);
}

static void unsubscribed(struct net *n) {
  if (!n->subscribed)
    return;
  n->subscribed = false;
  memset(&n->asked, 0, sizeof n->asked);
  memset(&n->acknowledged, 0, sizeof n->acknowledged);
  watch_messages(n, -1);
}

/* True: messages come from another process than answers, by both run ids ("":
 * unknown). */
static bool is_apart(const char *messages, const char *commands, bool moved) {
  if (messages[0] && commands[0])
    return strcmp(messages, commands) != 0;
  return moved;
}

/* Messages connect without an event: they come and go with waiters. */
static void usable(struct net *n) {
  bool moved = n->moved;
  n->moved = false;
  if (n->subscribed && is_apart(n->hello_sub.run_id, n->run_id, moved)) {
    unsubscribed(n);
    dlk_net_conn_off(&n->sub.net); /* flush opens it again if it is wanted */
  }
  n->link.served = true;
  n->link.refused = NULL;
  n->link.connections++;
  n->link.moves += moved;
  want_back(n, false);
  dlk_net_conn_ready(&n->cmd.net);
  dlk_net_conn_event(&n->cmd.net, "connect", "connected%s",
                     moved ? "; it was started anew, or is another" : "");
  if (moved)
    n->events->moved(n->arg);
}

static void encode_kill(struct dlk_redis_req *req, struct dlk_buf *out) {
  struct net *n = DLK_CONTAINER(req, struct net, kill_req);
  req->replies = n->kill_count;
  for (unsigned i = 0; i < n->kill_count; i++) {
    dlk_redis_put_array(out, 4);
    dlk_redis_put_text(out, "CLIENT");
    dlk_redis_put_text(out, "KILL");
    dlk_redis_put_text(out, "ID");
    dlk_redis_put_int(out, n->kills[i]);
  }
}

static void killed(struct dlk_redis_req *req,
                   const struct dlk_redis_answer *a) {
  struct net *n = DLK_CONTAINER(req, struct net, kill_req);
  if (a->outcome != DLK_REDIS_ANSWERED)
    return; /* the next handshake kills them */
  if (a->refusal)
    n->link.may_linger = true;
  n->kill_count = 0;
  usable(n);
}

static void warn(struct net *n) {
  const char *policy = n->hello.policy;
  if (n->warned || !policy[0] || strcmp(policy, "noeviction") == 0)
    return;
  n->warned = true;
  dlk_net_conn_event(&n->cmd.net, "eviction",
                     "maxmemory-policy is %s: locks can be evicted and held "
                     "twice; use noeviction",
                     policy);
}

static enum replicas replicas_now(const struct net *n) {
  const struct dlk_redis_durable *d = &n->cmd.durable;
  unsigned wanted = dlk_redis_durable_wanted(d);
  if (wanted == 0 || n->hello.have < 0)
    return ENOUGH;
  return n->hello.have < (int64_t)wanted       ? SCARCE
         : wanted < dlk_redis_durable_there(d) ? FEWER
                                               : ENOUGH;
}

/* Each state makes one event. */
static void warn_replicas(struct net *n) {
  struct dlk_redis_durable *d = &n->cmd.durable;
  d->asked = n->host->now(n->host); /* locate asked the Sentinels before */
  dlk_redis_durable_count(d, n->hello.listed, d->asked);
  if (d->all && d->known && *d->known < 0 && !n->told_unknown)
    dlk_net_conn_event(&n->cmd.net, "replicas",
                       "its Sentinels do not say how many replicas they know "
                       "(+sentinel|master, docs/security.md): one that is away "
                       "is not counted");
  n->told_unknown = true;
  enum replicas now = replicas_now(n);
  if (now == SCARCE && n->replicas != SCARCE)
    dlk_net_conn_event(&n->cmd.net, "replicas",
                       "%lld of %u replicas are there; no lock can be given",
                       (long long)n->hello.have, dlk_redis_durable_wanted(d));
  else if (now == FEWER && n->replicas != FEWER)
    dlk_net_conn_event(&n->cmd.net, "replicas",
                       "wait_replicas is %u of %u replicas, so a failover may "
                       "lose a lock; \"all\" loses none",
                       d->wanted, dlk_redis_durable_there(d));
  n->replicas = now;
}

/* The program may know a new password. */
static void refuse(struct net *n, struct dlk_redis_conn *c,
                   const struct dlk_redis_handshake *g) {
  struct dlk_error why = g->err;
  struct dlk_secret *secret = g->auth.secret;
  if (g->stranger && secret && dlk_secret_refused(secret, g->auth.turn))
    n->host->event(n->host, "denied", why.text);
  dlk_net_conn_refuse(&c->net, &why);
}

static void handshake_done(struct dlk_redis_req *req,
                           const struct dlk_redis_answer *a) {
  struct net *n = DLK_CONTAINER(req, struct net, hello.req);
  if (a->outcome != DLK_REDIS_ANSWERED)
    return;
  if (n->hello.err.code != DLK_OK) {
    refuse(n, &n->cmd, &n->hello);
    return;
  }
  n->id = n->hello.id;
  if (!n->hello.run_id[0])
    n->link.may_linger = true;
  if (!n->hello.run_id[0] || strcmp(n->run_id, n->hello.run_id) != 0) {
    n->kill_count = 0;
    n->moved = n->link.served;
  }
  memcpy(n->run_id, n->hello.run_id, sizeof n->run_id);
  n->link.run_id = n->run_id;
  n->link.began = n->host->now(n->host) - (n->hello.uptime - 1) * DLK_SEC;
  n->link.keeps = n->hello.keeps;
  warn(n);
  warn_replicas(n);
  if (n->kill_count == 0) {
    usable(n);
    return;
  }
  n->kill_req.encode = encode_kill;
  n->kill_req.done = killed;
  dlk_redis_conn_say(&n->cmd, &n->kill_req);
}

static void broken(struct dlk_redis_conn *c, bool asked,
                   const struct dlk_error *why) {
  struct net *n = c->arg;
  if (n->state == RUNNING)
    n->host->event(n->host, "disconnect", why->text);
  want_back(n, n->state == RUNNING && n->events->needed(n->arg));
  if (!asked || n->id < 0)
    return;
  if (n->kill_count == DLK_REDIS_KILLS) {
    memmove(n->kills, n->kills + 1, sizeof n->kills - sizeof n->kills[0]);
    n->kill_count--;
    n->link.may_linger = true;
  }
  n->kills[n->kill_count++] = n->id;
}

static void failed(struct dlk_redis_conn *c, const struct dlk_error *why) {
  struct net *n = c->arg;
  n->link.refused = why->code != DLK_UNAVAILABLE ? &c->net.why : NULL;
  want_back(n, n->state == RUNNING && n->events->needed(n->arg));
}

static void wait_refused(struct dlk_redis_durable *d, struct dlk_error *why) {
  dlk_net_conn_retreat(&DLK_CONTAINER(d, struct dlk_redis_conn, durable)->net,
                       why);
}

static void wait_doubts(struct dlk_redis_durable *d) {
  const struct dlk_redis_conn *c =
      DLK_CONTAINER(d, struct dlk_redis_conn, durable);
  if (c->net.endpoint->changes)
    c->net.endpoint->doubt(c->net.endpoint);
}

static bool needed(struct dlk_redis_conn *c) {
  struct net *n = c->arg;
  return n->events->needed(n->arg);
}

static const struct dlk_redis_conn_events cmd_events = {.handshake = handshake,
                                                        .broken = broken,
                                                        .failed = failed,
                                                        .needed = needed,
                                                        .gone = gone};

/* ---- the connection for messages ---- */

static void sub_handshake_done(struct dlk_redis_req *req,
                               const struct dlk_redis_answer *a) {
  struct net *n = DLK_CONTAINER(req, struct net, hello_sub.req);
  if (a->outcome != DLK_REDIS_ANSWERED)
    return;
  struct dlk_redis_handshake *g = &n->hello_sub;
  if (n->cmd.net.state == DLK_NET_READY && g->err.code == DLK_OK &&
      is_apart(g->run_id, n->run_id, false))
    dlk_error_set(&g->err, DLK_UNAVAILABLE,
                  "%s: messages would come from another server than answers "
                  "do; the address has to lead to the primary alone",
                  g->name.text);
  if (g->err.code != DLK_OK) {
    refuse(n, &n->sub, g);
    return;
  }
  dlk_net_conn_ready(&n->sub.net);
  n->subscribed = true;
  watch_messages(n, dlk_net_sock_fd(n->sub.net.sock));
  n->events->subscribed(n->arg, DLK_REDIS_ANY_SLOT);
}

static void broken_sub(struct dlk_redis_conn *c, bool asked,
                       const struct dlk_error *why) {
  struct net *n = c->arg;
  (void)asked;
  (void)why;
  unsubscribed(n);
}

static void failed_sub(struct dlk_redis_conn *c, const struct dlk_error *why) {
  struct net *n = c->arg;
  unsubscribed(n);
  n->events->unsubscribed(n->arg, DLK_REDIS_ANY_SLOT, why);
}

static void say_slot(struct net *n, const char *word, int slot) {
  char channel[DLK_REDIS_CHANNEL];
  dlk_redis_channel(channel, n->hello.channel, (unsigned)slot);
  dlk_redis_put_words(&n->sub.net.out, word, channel, NULL);
  n->sub.net.asked = true;
  dlk_net_conn_asked(&n->sub.net, dlk_net_conn_now(&n->sub.net));
}

static void drop_slot(struct net *n, int slot) {
  dlk_redis_slots_put(&n->asked, slot, false);
  dlk_redis_slots_put(&n->acknowledged, slot, false);
}

static void left_slot(struct net *n, int slot, const struct dlk_error *why) {
  drop_slot(n, slot);
  n->events->unsubscribed(n->arg, slot, why);
}

/* A slot that has gone is not refused for good. */
static void slots_refused(struct net *n, const char *text) {
  struct dlk_net_place place;
  struct dlk_error why;
  unsigned moved;
  dlk_redis_fault_error(&why, text, n->hello_sub.name.text);
  if (dlk_redis_redirect_read(text, "", &moved, &place) != DLK_REDIS_NOWHERE)
    why.code = DLK_UNAVAILABLE;
  for (int slot = 0; slot < (int)DLK_REDIS_SLOTS; slot++)
    if (dlk_redis_slots_has(&n->asked, slot) &&
        !dlk_redis_slots_has(&n->acknowledged, slot))
      left_slot(n, slot, &why);
}

/* ["message", channel, text]. An unasked "sunsubscribe": the slot has gone.
 * Other replies (PING's) need no action. */
static void push(struct dlk_redis_conn *c, const redisReply *reply) {
  struct net *n = c->arg;
  const redisReply *channel = dlk_redis_at(reply, 1);
  const redisReply *said = dlk_redis_at(reply, 2);
  const char *kind = dlk_redis_word(reply);
  int slot = channel->type == REDIS_REPLY_STRING
                 ? (int)dlk_redis_slot(channel->str, channel->len)
                 : 0;
  if (reply->type == REDIS_REPLY_ERROR) {
    slots_refused(n, reply->str);
  } else if (strcmp(kind + (kind[0] == 's'), "message") == 0) {
    if (said->type == REDIS_REPLY_STRING)
      n->events->message(n->arg, said->str, said->len);
  } else if (strcmp(kind, "ssubscribe") == 0) {
    dlk_redis_slots_put(&n->asked, slot, true);
    dlk_redis_slots_put(&n->acknowledged, slot, true);
    n->events->subscribed(n->arg, slot);
  } else if (strcmp(kind, "sunsubscribe") == 0 &&
             dlk_redis_slots_has(&n->asked, slot)) {
    struct dlk_error why;
    dlk_error_set(&why, DLK_UNAVAILABLE, "%s: the slot has moved",
                  n->hello_sub.name.text);
    left_slot(n, slot, &why);
  }
}

static const struct dlk_redis_conn_events sub_events = {.handshake = handshake,
                                                        .broken = broken_sub,
                                                        .failed = failed_sub,
                                                        .push = push,
                                                        .needed = needed,
                                                        .gone = gone};

/* ---- the loop ---- */

static void flush(struct net *n) {
  if (n->state >= STOPPING)
    return;
  dlk_redis_conn_flush(&n->cmd);
  dlk_net_conn_wake(&n->sub.net);
  if (n->endpoint->changes)
    n->endpoint->flush(n->endpoint, n->sub.net.wanted);
}

static void link_flush(struct dlk_redis_link *link) {
  flush((struct net *)(void *)link);
}

static bool link_prompt(struct dlk_redis_link *link) {
  struct net *n = net_of(link);
  bool ready = n->subscribed || !n->sub.net.wanted;
  return n->cmd.net.state == DLK_NET_READY && !n->cmd.net.blocked && ready;
}

static bool link_await(struct dlk_redis_link *link) {
  return dlk_redis_conn_await(&net_of(link)->cmd);
}

static void on_prepare(uv_prepare_t *h) {
  flush(h->data);
}

static void on_check(uv_check_t *h) {
  flush(h->data);
}

static void hook_closed(uv_handle_t *h) {
  struct net *n = h->data;
  n->alive--;
  gone(&n->cmd);
}

static void start(struct net *n) {
  if (n->state != NEW)
    return;
  n->state = RUNNING;
  if (!n->hooked)
    return;
  uv_loop_t *loop = n->host->loop(n->host);
  (void)uv_prepare_init(loop, &n->prepare);
  (void)uv_check_init(loop, &n->check);
  n->prepare.data = n->check.data = n;
  n->alive += 2;
  if (n->endpoint->changes)
    n->endpoint->start(n->endpoint, n->wake, &n->alive, gone, &n->cmd);
  (void)uv_prepare_start(&n->prepare, on_prepare);
  (void)uv_check_start(&n->check, on_check);
}

/* ---- the link ---- */

static void link_submit(struct dlk_redis_link *link,
                        struct dlk_redis_req *req) {
  struct net *n = net_of(link);
  start(n);
  dlk_redis_pipe_submit(&n->cmd.pipe, req);
}

static bool link_withdraw(struct dlk_redis_link *link,
                          struct dlk_redis_req *req) {
  return dlk_redis_pipe_withdraw(&net_of(link)->cmd.pipe, req);
}

static bool is_sharded(const struct net *n) {
  return !n->hooked && n->hello_sub.major != 6;
}

/* Of a node: its owner repeats it for each slot after `subscribed`. */
static void link_subscribe(struct dlk_redis_link *link, int slot) {
  struct net *n = net_of(link);
  start(n);
  n->sub.net.wanted = true;
  if (!n->subscribed || !is_sharded(n) || dlk_redis_slots_has(&n->asked, slot))
    return;
  dlk_redis_slots_put(&n->asked, slot, true);
  say_slot(n, "SSUBSCRIBE", slot);
}

static bool link_subscribed(struct dlk_redis_link *link, int slot) {
  const struct net *n = net_of(link);
  return n->subscribed && (slot < 0 || !is_sharded(n) ||
                           dlk_redis_slots_has(&n->acknowledged, slot));
}

static void link_unsubscribe(struct dlk_redis_link *link) {
  struct net *n = net_of(link);
  if (!n->sub.net.wanted)
    return;
  n->sub.net.wanted = false;
  unsubscribed(n);
  dlk_net_conn_off(&n->sub.net);
}

static void link_retreat(struct dlk_redis_link *link,
                         const struct dlk_error *why) {
  dlk_net_conn_retreat(&net_of(link)->cmd.net, why);
}

static void link_stop(struct dlk_redis_link *link) {
  struct net *n = net_of(link);
  bool started = n->state == RUNNING;
  if (n->state >= STOPPING)
    return;
  n->state = STOPPING;
  want_back(n, false);
  n->alive++; /* gone() must not end it yet */
  unsubscribed(n);
  dlk_net_conn_stop(&n->cmd.net);
  dlk_net_conn_stop(&n->sub.net);
  if (started && n->endpoint->changes)
    n->endpoint->stop(n->endpoint);
  if (started && n->hooked) {
    uv_close((uv_handle_t *)&n->prepare, hook_closed);
    uv_close((uv_handle_t *)&n->check, hook_closed);
  }
  n->alive--;
  gone(&n->cmd);
}

static void link_destroy(struct dlk_redis_link *link) {
  struct net *n = net_of(link);
  dlk_net_conn_free(&n->cmd.net);
  dlk_net_conn_free(&n->sub.net);
  free(n);
}

bool dlk_redis_net_stands(const struct dlk_redis_link *link) {
  return ((const struct net *)(const void *)link)->cmd.net.state ==
         DLK_NET_READY;
}

enum dlk_redis_form dlk_redis_net_form(const struct dlk_redis_link *link) {
  return ((const struct net *)(const void *)link)->hello.major == 6
             ? DLK_REDIS_CLASSIC
             : DLK_REDIS_SHARDED;
}

void dlk_redis_net_quit(struct dlk_redis_link *link, int slot) {
  struct net *n = net_of(link);
  if (!dlk_redis_slots_has(&n->asked, slot))
    return;
  drop_slot(n, slot);
  say_slot(n, "SUNSUBSCRIBE", slot);
}

struct dlk_list *dlk_redis_net_waiting(struct dlk_redis_link *link) {
  return &net_of(link)->cmd.pipe.waiting;
}

struct dlk_redis_link *
dlk_redis_net_new(struct dlk_host *host, const struct dlk_conf *conf,
                  struct dlk_net_endpoint *endpoint,
                  const struct dlk_redis_settings *settings,
                  const char *channel,
                  const struct dlk_redis_link_events *events, void *arg) {
  struct net *n = calloc(1, sizeof *n);
  if (!n)
    return NULL;
  n->link.submit = link_submit;
  n->link.withdraw = link_withdraw;
  n->link.subscribe = link_subscribe;
  n->link.subscribed = link_subscribed;
  n->link.unsubscribe = link_unsubscribe;
  n->link.retreat = link_retreat;
  n->link.flush = link_flush;
  n->link.await = link_await;
  n->link.prompt = link_prompt;
  n->link.stop = link_stop;
  n->link.destroy = link_destroy;
  n->host = host;
  n->endpoint = endpoint;
  dlk_net_wake_init(&n->own_wake, host);
  n->wake = settings->wake ? settings->wake : &n->own_wake;
  n->wake_at = settings->wake_at;
  n->hooked = !settings->cluster;
  n->events = events;
  n->arg = arg;
  n->id = -1;
  dlk_redis_conn_init(&n->cmd, host, conf, endpoint, &cmd_events, n);
  dlk_redis_conn_init(&n->sub, host, conf, endpoint, &sub_events, n);
  n->cmd.net.alive = n->sub.net.alive = &n->alive;
  n->cmd.net.pause = n->sub.net.pause =
      endpoint->changes || settings->cluster ? PAUSE : 0;
  n->hello.cluster = n->hello_sub.cluster = settings->cluster;
  n->hello.link = n->hello_sub.link = &n->link;
  n->hello.conf = n->hello_sub.conf = conf;
  n->hello.channel = n->hello_sub.channel = channel;
  n->hello.db = settings->db;
  n->hello.votes = settings->max_ttl > 0;
  n->hello_sub.subscriber = true;
  n->hello.replicas = n->cmd.durable.wanted = settings->replicas;
  n->hello.all = n->cmd.durable.all = settings->all;
  if (endpoint->changes)
    n->cmd.durable.known =
        &DLK_CONTAINER(endpoint, struct dlk_redis_primary, endpoint)->replicas;
  n->cmd.durable.shown = conf->shown;
  n->cmd.durable.refused = wait_refused;
  n->cmd.durable.doubt = wait_doubts;
  n->cmd.durable.timeout = settings->wait_timeout;
  n->cmd.pipe.replicas = settings->replicas > 0;
  n->hello.changes = n->hello_sub.changes = endpoint->changes;
  n->hello.req.done = handshake_done;
  n->hello_sub.req.done = sub_handshake_done;
  return &n->link;
}
