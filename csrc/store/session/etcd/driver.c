/* A session is a lease. Its connection goes to one member, and to the next one
 * when that fails.
 *
 *   greet: [Authenticate] -> LeaseGrant      the first time: `connected`
 *                         -> Txn(epoch)      later: `connected` again
 *   close: LeaseRevoke, or nothing without a connection: the lease runs out
 *
 * E1. No create of a lost connection is done later. Each new connection has the
 *     next number, its epoch, and begins by writing a key with it. A create is
 *     done only if there is no key of a later epoch. So what a list sent behind
 *     that write does not show never comes. Such a write that comes late is of
 *     an older epoch, and bars older creates only. The keys hang on the lease,
 *     and the last one is enough. Other writes compare their own node (asks.c).
 * E2. The epoch's write also says whether the lease lives, by the word of a
 *     majority, and the member has applied it when it answers: its own reads
 *     are no older than any answer of before.
 * E3. `ended`, and all else that may close the link, is called from the loop.
 *     The memory stays until a post of its own. */
#include "store/session/etcd/link.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/secret.h"
#include "net/event.h"
#include "store/session/etcd/proof.h"

static struct dlk_ss_link *of(struct dlk_grpc *g) {
  return (struct dlk_ss_link *)(void *)g;
}

/* ---- the end ---- */

static void run_gone(struct dlk_post *post) {
  struct dlk_ss_link *l = DLK_CONTAINER(post, struct dlk_ss_link, post);
  void (*gone)(void *) = l->events.gone;
  void *owner = l->owner;
  dlk_grpc_drop(&l->hello);
  dlk_grpc_drop(&l->keeper);
  dlk_grpc_drop(&l->watcher);
  dlk_map_clear(&l->watches);
  dlk_grpc_free(&l->grpc);
  free(l);
  gone(owner);
}

static void on_gone(void *arg) {
  struct dlk_ss_link *l = arg;
  if (l->gone && l->alive == 0)
    l->host->post(l->host, &l->post);
}

static void finish(struct dlk_ss_link *l) {
  if (l->gone)
    return;
  l->gone = true;
  l->host->timer_clear(l->host, &l->soon);
  l->host->timer_clear(l->host, &l->late);
  dlk_net_conn_stop(&l->grpc.net);
  dlk_etcd_link_up(l, false);
  l->alive--;
  on_gone(l);
}

static void on_revoked(struct dlk_grpc_call *c) {
  finish(of(c->owner));
}

static void late_fired(struct dlk_timer *timer, int64_t now) {
  (void)now;
  finish(DLK_CONTAINER(timer, struct dlk_ss_link, late));
}

static void close_link(struct dlk_ss_link *l) {
  bool revokes = l->up && l->lease != 0;
  l->closed = true;
  dlk_list_remove(&l->in_client);
  dlk_ss_asks_end(&l->asks, NULL);
  dlk_etcd_watches_end(l);
  dlk_grpc_drop(&l->keeper);
  dlk_grpc_drop(&l->watcher);
  dlk_etcd_link_up(l, false);
  if (revokes) {
    dlk_grpc_init_call(&l->hello, &l->grpc, "Lease/LeaseRevoke", false,
                       on_revoked);
    size_t mark = dlk_grpc_open(&l->hello);
    dlk_etcd_lease(&l->hello.out, l->lease);
    revokes = dlk_grpc_say(&l->hello, mark);
  }
  if (!revokes) {
    finish(l);
    return;
  }
  dlk_etcd_link_wake(l);
  l->host->timer_set(
      l->host, &l->late,
      dlk_time_add(l->host->now(l->host), l->client->conf.io_timeout));
}

/* ---- the handshake ---- */

/* Other members want their turn; but each login costs a member a tenth of a
 * second. */
static void set_pause(struct dlk_ss_link *l, bool denied) {
  bool many = l->client->conf.host_count > 1;
  l->grpc.net.pause = denied ? 2 * DLK_SEC : many ? 250 * DLK_MS : 0;
}

/* A session that may still have holds goes on until its time is over: the
 * program may have another password, an admin may give the right back. */
static void denied(struct dlk_ss_link *l, const struct dlk_grpc_call *c) {
  struct dlk_secret *secret = l->client->conf.secret;
  struct dlk_error why;
  if (secret && dlk_secret_refused(secret, l->turn))
    dlk_net_event(l->host, &l->client->conf, "denied", "%s", c->text);
  if (l->lease == 0) {
    dlk_etcd_link_end(l, DLK_SS_END_DENIED, c->text);
    return;
  }
  dlk_error_set(&why, DLK_UNAVAILABLE,
                "%s: %s; were the user's password or roles changed?",
                l->client->conf.shown, c->text);
  set_pause(l, true);
  dlk_net_conn_refuse(&l->grpc.net, &why);
}

/* True: the answer was OK. */
static bool was_good(struct dlk_ss_link *l, const struct dlk_grpc_call *c) {
  if (c->status == DLK_GRPC_OK)
    return true;
  struct dlk_error why;
  if (dlk_etcd_denied(l, c)) {
    denied(l, c);
  } else if (c->status == DLK_GRPC_NOT_FOUND && l->lease != 0) {
    dlk_etcd_link_end(l, DLK_SS_END_EXPIRED, "the lease ran out");
  } else {
    dlk_error_set(&why, DLK_UNAVAILABLE, "%s: %s", l->client->conf.shown,
                  c->text);
    dlk_net_conn_refuse(&l->grpc.net, &why);
  }
  return false;
}

static void is_ready(struct dlk_ss_link *l) {
  l->failures = 0;
  set_pause(l, false);
  dlk_net_conn_ready(&l->grpc.net);
  dlk_etcd_link_up(l, true);
  dlk_etcd_watches_renew(l);
  l->events.connected(l->user, l->lease, l->seconds * DLK_SEC);
}

static void broke_protocol(struct dlk_ss_link *l) {
  dlk_net_conn_lost(&l->grpc.net, "the server's answer broke the protocol");
}

static void on_granted(struct dlk_grpc_call *c) {
  struct dlk_ss_link *l = of(c->owner);
  struct dlk_etcd_bytes m;
  struct dlk_etcd_leased leased;
  if (!was_good(l, c))
    return;
  if (!dlk_grpc_next(c, &m) || !dlk_etcd_leased(m, &leased) || leased.id == 0 ||
      leased.ttl <= 0) {
    broke_protocol(l);
    return;
  }
  l->lease = leased.id;
  l->seconds = leased.ttl;
  is_ready(l);
}

static void on_epoch(struct dlk_grpc_call *c) {
  struct dlk_ss_link *l = of(c->owner);
  if (was_good(l, c))
    is_ready(l);
}

static bool enter(struct dlk_ss_link *l) {
  struct dlk_grpc_call *c = &l->hello;
  struct dlk_buf old = {0};
  if (l->lease == 0)
    dlk_grpc_init_call(c, &l->grpc, "Lease/LeaseGrant", false, on_granted);
  else
    dlk_grpc_init_call(c, &l->grpc, "KV/Txn", false, on_epoch);
  size_t mark = dlk_grpc_open(c);
  if (l->lease == 0) {
    dlk_etcd_grant(&c->out, l->seconds, 0);
  } else {
    dlk_etcd_epoch_key(l, l->epoch++, &old);
    dlk_etcd_put_epoch(l, &c->out);
    if (!old.failed)
      dlk_etcd_do_delete(&c->out, (struct dlk_etcd_bytes){old.data, old.len},
                         false);
  }
  bool ok = !old.failed && dlk_grpc_say(c, mark);
  dlk_buf_free(&old);
  return ok;
}

/* Servers without authentication say so to any name. */
static void on_authenticated(struct dlk_grpc_call *c) {
  struct dlk_ss_link *l = of(c->owner);
  struct dlk_etcd_bytes m, token;
  bool none = c->status == DLK_GRPC_FAILED_PRECONDITION;
  if (!none && !was_good(l, c))
    return;
  if (!none) {
    if (!dlk_grpc_next(c, &m) || !dlk_etcd_token(m, &token)) {
      broke_protocol(l);
      return;
    }
    dlk_buf_add(&l->grpc.token, token.p, token.n);
    dlk_buf_add(&l->grpc.token, "", 1);
  }
  dlk_buf_wipe(&c->in);
  dlk_buf_wipe(&c->out);
  if (l->grpc.token.failed || !enter(l))
    dlk_net_conn_lost(&l->grpc.net, "out of memory");
}

static bool authenticate(struct dlk_ss_link *l) {
  const struct dlk_conf *conf = &l->client->conf;
  struct dlk_grpc_call *c = &l->hello;
  struct dlk_buf now = {0};
  const char *password = conf->password;
  if (conf->secret)
    password = dlk_secret_read(conf->secret, &now, &l->turn) ? now.data : NULL;
  dlk_grpc_init_call(c, &l->grpc, "Auth/Authenticate", false, on_authenticated);
  dlk_buf_reserve(&c->out, 2048);
  size_t mark = dlk_grpc_open(c);
  dlk_etcd_authenticate(&c->out, conf->username, password ? password : "");
  bool ok = !now.failed && dlk_grpc_say(c, mark);
  dlk_buf_wipe(&now);
  return ok;
}

static bool greet(struct dlk_grpc *g) {
  struct dlk_ss_link *l = of(g);
  return l->client->conf.username ? authenticate(l) : enter(l);
}

/* ---- what the connection tells ---- */

/* "unavailable: etcd://h: refused" -> "refused" */
static const char *reason(const struct dlk_ss_link *l,
                          const struct dlk_error *why) {
  const char *shown = l->client->conf.shown;
  const char *at = strstr(why->text, shown);
  size_t skip = strlen(shown) + 2;
  return at && strlen(at) > skip ? at + skip : why->text;
}

static void broken(struct dlk_grpc *g, const struct dlk_error *why) {
  struct dlk_ss_link *l = of(g);
  if (l->closed) {
    finish(l);
    return;
  }
  dlk_etcd_link_up(l, false);
  l->events.away(l->user, reason(l, why));
  dlk_ss_asks_end(&l->asks, why->text);
  dlk_etcd_link_busy(l);
}

static void failed(struct dlk_grpc *g, const struct dlk_error *why) {
  struct dlk_ss_link *l = of(g);
  bool plain = l->grpc.net.at && !l->grpc.net.at->tls;
  if (l->gone)
    return;
  l->failures++;
  if (l->closed)
    finish(l);
  else if (why->code == DLK_DENIED && plain)
    dlk_etcd_link_end(l, DLK_SS_END_BARRED, reason(l, why));
  else if (why->code == DLK_DENIED)
    dlk_etcd_link_end(l, DLK_SS_END_REFUSED,
                      strstr(why->text, l->client->conf.shown));
  else if (l->lease == 0 && l->failures >= l->client->conf.host_count)
    dlk_etcd_link_end(l, DLK_SS_END_FAILED, reason(l, why));
  else if (l->lease != 0)
    l->events.away(l->user, reason(l, why));
}

static bool waits(const struct dlk_grpc *g) {
  return !((const struct dlk_ss_link *)(const void *)g)->gone;
}

static int64_t oldest(const struct dlk_grpc *g) {
  const struct dlk_ss_link *l = (const struct dlk_ss_link *)(const void *)g;
  return l->hello.on ? l->hello.sent : dlk_etcd_oldest(l);
}

static const struct dlk_grpc_events grpc_events = {.greet = greet,
                                                   .broken = broken,
                                                   .failed = failed,
                                                   .waits = waits,
                                                   .oldest = oldest};

/* Each attempt goes to the next member. */
static void locate(struct dlk_net_endpoint *e, struct dlk_net_seeker *who) {
  struct dlk_ss_link *l = DLK_CONTAINER(e, struct dlk_ss_link, endpoint);
  size_t at = l->member++ % l->client->conf.host_count;
  who->located(who, &l->client->members[at], NULL);
}

/* ---- the driver ---- */

static void soon_fired(struct dlk_timer *timer, int64_t now) {
  struct dlk_ss_link *l = DLK_CONTAINER(timer, struct dlk_ss_link, soon);
  (void)now;
  dlk_net_conn_wake(&l->grpc.net);
  if (!l->closed)
    dlk_etcd_deliver(l);
  if (!l->gone)
    dlk_grpc_flush(&l->grpc);
}

static struct dlk_ss_link *open_link(struct dlk_host *host, void *client,
                                     int64_t timeout,
                                     const struct dlk_ss_events *events,
                                     void *user, void *owner) {
  struct dlk_ss_link *l = calloc(1, sizeof *l);
  struct dlk_net_conn *n = l ? &l->grpc.net : NULL;
  uint32_t seed[2];
  if (!l)
    return NULL;
  host->random(host, seed, sizeof seed);
  l->client = client;
  l->host = host;
  l->events = *events;
  l->user = user;
  l->owner = owner;
  l->seconds = (timeout + DLK_SEC - 1) / DLK_SEC;
  l->member = seed[0];
  l->endpoint.locate = locate;
  dlk_list_init(&l->asks.list);
  l->asks.type = &dlk_etcd_asks;
  l->asks.host = host;
  l->asks.base = l->client->base;
  l->asks.texts = l->client->texts;
  l->asks.most = INT_MAX;
  dlk_list_init(&l->hello.link);
  dlk_list_init(&l->keeper.link);
  dlk_list_init(&l->watcher.link);
  dlk_map_init(&l->watches, seed[1]);
  l->soon.fire = soon_fired;
  l->late.fire = late_fired;
  l->post.run = run_gone;
  dlk_grpc_init(&l->grpc);
  l->grpc.events = &grpc_events;
  n->host = host;
  n->conf = &l->client->conf;
  n->endpoint = &l->endpoint;
  n->gone = on_gone;
  n->alive = &l->alive;
  n->connect_timeout = l->client->conf.connect_timeout;
  if (l->client->conf.host_count > 1)
    n->connect_timeout /= 3;
  set_pause(l, false);
  l->alive = 1;
  dlk_list_append(&l->client->links, &l->in_client);
  dlk_etcd_link_busy(l);
  dlk_etcd_link_wake(l);
  return l;
}

static void free_client(void *arg) {
  struct dlk_etcd_client *client = arg;
  dlk_net_tls_free(client->tls);
  dlk_ss_free_texts(client->texts);
  free(client->members);
  free(client->base);
  free(client);
}

const struct dlk_ss_driver dlk_etcd_driver = {
    .name = "etcd",
    .room = "etcd",
    .denied_user = "the password is wrong, or the user has no role that may "
                   "read and write there",
    .denied_nobody = "it asks for a username and a password",
    .watch_bytes = (size_t)16 << 20,
    .rule = &dlk_etcd_proof,
    .portable = true,
    .open = open_link,
    .send = dlk_etcd_send,
    .close = close_link,
    .abandon = finish,
    .guard_error = dlk_etcd_guard_error,
    .free_client = free_client,
};
