/* The router: one net for each primary, and a map from slots to them.
 *
 *   map     CLUSTER SLOTS of one node (cluster_map.c), patched by each MOVED
 *   parked  a request without a node: it waits for a map, or for its pause
 *
 *   NEW      -> RUNNING    start: the first request or subscription
 *   RUNNING  -> STOPPING   link_stop
 *   STOPPING -> STOPPED    finish: no node and no hook is left
 *
 * I1  A request runs once: only a refusal before execution (MOVED, ASK,
 *     TRYAGAIN, CLUSTERDOWN) sends it elsewhere. A request that one node may
 *     have run ends as UNKNOWN.
 * I2  A node that lost a slot refuses what comes late. A failed one's late
 *     writes never reach the promoted one. So what follows an UNKNOWN request
 *     at another node runs instead of it, unless the slot comes back: the
 *     request `may_linger` until the node has dropped its connection.
 * I3  `connections` counts up with each node's connection, each slot's new
 *     owner, and each request to a node not heard for SILENT: it may have been
 *     a replica meanwhile, and keeps connections. An answer counts for the
 *     value at its writing. So counters of fences are lifted then (op/fence.c).
 * I4  Messages come from a slot's owner: its scripts count its listeners. A new
 *     owner is subscribed to as soon as it is known; a map ends idle ones.
 * I5  At most HOPS redirects follow each other, then a pause; io_timeout bounds
 *     all pauses of a request, and its caller may withdraw it.
 *
 * A slot moves: both nodes refuse requests of several names (TRYAGAIN). An
 * exclusive renewal or release has a form with one name, which either node
 * serves; others pause.
 * A primary fails: other nodes are asked for the map. The new owner gets what
 * waits, and all leases are renewed there: one that it lacks is lost now.
 * A node leaves the map: it ends when its last request has.
 * Before 7.0 PUBLISH reaches us from each node that we listen to: a second
 * message finds its wait over, and only makes others ask. */
#include "store/redis/conn/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "net/event.h"
#include "store/redis/conn/cluster_map.h"
#include "store/redis/wire/codec.h"
#include "store/redis/wire/errors.h"

#define HOPS 5
#define SILENT (250 * DLK_MS)
#define REST (5 * DLK_MS) /* a request's first pause; it doubles to */
#define REST_MAX (100 * DLK_MS)

enum link_state { NEW, RUNNING, STOPPING, STOPPED };

struct cluster {
  struct dlk_redis_link link; /* first */
  struct dlk_host *host;
  const struct dlk_conf *conf;
  const struct dlk_redis_link_events *events;
  void *arg;
  enum link_state state;
  unsigned hooks;
  struct dlk_redis_map map;
  struct dlk_timer timer; /* of pauses */
  uv_prepare_t prepare;
  uv_check_t check;
  struct dlk_redis_slots wants; /* messages */
  bool wants_any;
  struct dlk_redis_node *last, *answering; /* or NULL */
  size_t open, lost;                       /* requests; nodes that lost some */
  bool lingers;                            /* a node may not drop connections */
  struct dlk_list parked;
  struct dlk_error rest; /* of the last request that pauses */
};

static struct cluster *of_node(const void *node) {
  return ((const struct dlk_redis_node *)node)->router;
}

static struct cluster *of(struct dlk_redis_link *link) {
  return (struct cluster *)(void *)link;
}

static int64_t now(const struct cluster *c) {
  return c->host->now(c->host);
}

/* ---- nodes ---- */

static void finish(struct cluster *c) {
  if (c->hooks || c->map.nodes.alive || c->state != STOPPING)
    return;
  c->state = STOPPED;
  c->events->stopped(c->arg);
}

static void listen_at(struct cluster *c, struct dlk_redis_node *n, int slot) {
  if (c->state == RUNNING && !n->link->subscribed(n->link, slot))
    n->link->subscribe(n->link, slot);
}

/* Those of one node, or (NULL) of all; ends those without a wait or hold. */
static void listen_all(struct cluster *c, const struct dlk_redis_node *at) {
  for (int slot = 0; slot < (int)DLK_REDIS_SLOTS; slot++) {
    struct dlk_redis_node *n = dlk_redis_nodes_owner(&c->map.nodes, slot);
    if (!n || (at && n != at))
      continue;
    if (dlk_redis_slots_has(&c->wants, slot))
      listen_at(c, n, slot);
    else
      dlk_redis_net_quit(n->link, slot);
  }
}

static void node_subscribed(void *arg, int slot) {
  struct cluster *c = of_node(arg);
  if (slot == DLK_REDIS_ANY_SLOT)
    listen_all(c, arg);
  c->events->subscribed(c->arg, slot);
}

/* The waits of a slot that moved ask by their timers until the next map. */
static void node_unsubscribed(void *arg, int slot,
                              const struct dlk_error *why) {
  struct dlk_redis_node *n = arg;
  if (why->code == DLK_UNAVAILABLE)
    dlk_redis_map_doubt(&of_node(n)->map, n);
  if (why->code != DLK_UNAVAILABLE || slot == DLK_REDIS_ANY_SLOT)
    of_node(n)->events->unsubscribed(of_node(n)->arg, slot, why);
}

static void node_message(void *arg, const char *p, size_t len) {
  struct cluster *c = of_node(arg);
  c->events->message(c->arg, p, len);
}

static void node_moved(void *arg) {
  struct cluster *c = of_node(arg);
  c->link.moves++;
  c->events->moved(c->arg);
}

static bool node_needed(void *arg) {
  struct dlk_redis_node *n = arg;
  return n->mapped && of_node(n)->events->needed(of_node(n)->arg);
}

static void node_stopped(void *arg) {
  struct dlk_redis_node *n = arg;
  n->state = DLK_NODE_RETIRED;
  of_node(n)->map.nodes.alive--;
  finish(of_node(n));
}

static const struct dlk_redis_link_events node_events = {
    node_subscribed, node_unsubscribed, node_message,
    node_moved,      node_needed,       NULL,
    node_stopped};

static void set_lost(struct dlk_redis_node *n, bool lost) {
  struct cluster *c = of_node(n);
  c->lost = c->lost - n->lost + lost;
  n->lost = lost;
  c->link.may_linger = c->lingers || c->lost > 0;
}

static void retire(struct cluster *c, struct dlk_redis_node *n) {
  c->last = c->last == n ? NULL : c->last;
  c->link.refused = NULL;
  set_lost(n, false);
  dlk_redis_map_retire(&c->map, n);
}

static void sync_with(struct dlk_redis_node *n) {
  struct dlk_redis_link *all = &of_node(n)->link;
  all->connections += n->link->connections - n->connections;
  of_node(n)->lingers = of_node(n)->lingers || n->link->may_linger;
  set_lost(n, n->lost && n->connections == n->link->connections);
  n->connections = n->link->connections;
  all->served = all->served || n->link->served;
}

/* ---- where a request goes ---- */

/* NULL: no map. */
static struct dlk_redis_node *target(const struct cluster *c,
                                     const struct dlk_redis_req *r) {
  struct dlk_redis_node *n = NULL;
  if (!c->map.nodes.known)
    return NULL;
  if (r->slot >= 0)
    n = dlk_redis_nodes_owner(&c->map.nodes, r->slot);
  else if (r->slot == DLK_REDIS_BY_NODE)
    n = dlk_redis_nodes_from(&c->map.nodes, r->node, false);
  return n ? n : dlk_redis_nodes_any(&c->map.nodes);
}

/* ---- a request's way ---- */

static void encode(struct dlk_redis_req *r, struct dlk_buf *out) {
  struct dlk_redis_node *n = r->route.node;
  sync_with(n);
  of_node(n)->link.connections += now(of_node(n)) - n->heard_at > SILENT;
  r->form = (uint8_t)dlk_redis_net_form(n->link);
  if (r->route.asks)
    dlk_redis_put_words(out, "ASKING", NULL);
  r->route.encode(r, out);
  r->replies += r->route.asks;
}

static void answered(struct dlk_redis_req *r, const struct dlk_redis_answer *a);

static void send_to(struct dlk_redis_node *n, struct dlk_redis_req *r) {
  struct cluster *c = of_node(n);
  r->route.node = n;
  r->encode = encode;
  r->done = answered;
  n->open++;
  c->open++;
  c->last = n;
  n->link->submit(n->link, r);
}

static struct dlk_redis_node *unsend(struct dlk_redis_req *r) {
  struct dlk_redis_node *n = r->route.node;
  r->route.node = NULL;
  r->encode = r->route.encode;
  r->done = r->route.done;
  n->open--;
  of_node(n)->open--;
  return n;
}

static void arm(struct cluster *c) {
  int64_t at = 0;
  for (struct dlk_list *l = c->parked.next; l != &c->parked; l = l->next) {
    int64_t due = DLK_CONTAINER(l, struct dlk_redis_req, entry)->route.at;
    at = due && (!at || due < at) ? due : at;
  }
  if (at && c->state == RUNNING)
    c->host->timer_set(c->host, &c->timer, at);
}

static void park(struct cluster *c, struct dlk_redis_req *r, int64_t at) {
  r->route.at = at;
  dlk_list_append(&c->parked, &r->entry);
  if (at)
    arm(c);
  else
    dlk_redis_map_need(&c->map);
}

static void dispatch(struct cluster *c, struct dlk_redis_req *r) {
  struct dlk_redis_node *n = target(c, r);
  r->route.asks = false;
  if (!n) {
    park(c, r, 0);
    return;
  }
  if (r->slot == DLK_REDIS_BY_NODE)
    memcpy(r->node, n->id, sizeof n->id);
  send_to(n, r);
}

static void fail(struct dlk_redis_req *r, const struct dlk_error *why) {
  struct dlk_redis_answer a = {.outcome = DLK_REDIS_UNSENT, .err = why};
  r->done(r, &a);
}

/* Sends it again after a while, unless it took too long. */
static void rest(struct cluster *c, struct dlk_redis_req *r, const char *text,
                 bool moves) {
  int64_t at = now(c), span = REST;
  char said[DLK_REDIS_QUOTE_MAX];
  if (moves)
    dlk_error_set(&c->rest, DLK_UNAVAILABLE,
                  "%s: its nodes name no other that serves the slot (%.80s); "
                  "see CLUSTER SLOTS, and the option address_map",
                  c->conf->shown, dlk_redis_fault_quote(text, said));
  else
    dlk_redis_fault_error(&c->rest, text, c->conf->shown);
  c->link.refused = &c->rest;
  r->route.since = r->route.since ? r->route.since : at;
  r->route.hops = 0;
  r->narrow = false;
  if (at - r->route.since >= c->conf->io_timeout) {
    fail(r, &c->rest);
    return;
  }
  for (unsigned i = 0; i < r->route.pauses && span < REST_MAX; i++)
    span *= 2;
  r->route.pauses = (uint8_t)(r->route.pauses + (span < REST_MAX));
  park(c, r, dlk_time_add(at, span < REST_MAX ? span : REST_MAX));
}

static void own(struct cluster *c, unsigned slot, struct dlk_redis_node *n);

/* True: the request has gone elsewhere, or ended. */
static bool redirected(struct dlk_redis_node *n, struct dlk_redis_req *r,
                       const char *text) {
  struct cluster *c = of_node(n);
  struct dlk_net_place place;
  struct dlk_redis_node *to = NULL;
  unsigned slot;
  enum dlk_redis_redirect kind =
      dlk_redis_redirect_read(text, n->reached.host, &slot, &place);
  bool moves = kind == DLK_REDIS_MOVED || kind == DLK_REDIS_ASK;
  if (kind == DLK_REDIS_NOWHERE || c->state != RUNNING)
    return false;
  if (moves && place.host[0])
    to = dlk_redis_nodes_at(&c->map.nodes, &place);
  if (kind == DLK_REDIS_MOVED) {
    dlk_redis_map_moved(&c->map);
    if (to)
      own(c, slot, to);
  } else if (kind == DLK_REDIS_TRYAGAIN && r->narrows && !r->narrow) {
    r->narrow = true;
    to = target(c, r);
  } else if (kind == DLK_REDIS_CLUSTERDOWN) {
    dlk_redis_map_doubt(&c->map, n);
  }
  r->route.asks = kind == DLK_REDIS_ASK;
  if (to && ++r->route.hops <= HOPS)
    send_to(to, r);
  else
    rest(c, r, text, moves);
  return true;
}

static void answered(struct dlk_redis_req *r,
                     const struct dlk_redis_answer *a) {
  struct dlk_redis_node *n = unsend(r);
  struct cluster *c = of_node(n);
  sync_with(n);
  if (a->outcome == DLK_REDIS_ANSWERED) {
    n->heard_at = now(c);
    if (a->refusal && redirected(n, r, a->refusal))
      return;
    c->link.refused = NULL;
  } else {
    c->link.refused = n->link->refused;
    dlk_redis_map_doubt(&c->map, n);
    if (a->outcome == DLK_REDIS_UNKNOWN)
      set_lost(n, true);
  }
  struct dlk_redis_node *before = c->answering;
  c->answering = n;
  r->done(r, a);
  c->answering = before;
}

/* ---- the map ---- */

static void own(struct cluster *c, unsigned slot, struct dlk_redis_node *n) {
  n->mapped = true;
  if (!c->map.nodes.known || c->map.nodes.owners[slot] == n->number)
    return;
  c->map.nodes.owners[slot] = n->number;
  c->link.connections++;
  c->link.moves++;
  if (dlk_redis_slots_has(&c->wants, (int)slot))
    listen_at(c, n, (int)slot);
}

/* Sends on what waits at a node that is its slot's owner no more. */
static void send_on(struct cluster *c, struct dlk_redis_node *n) {
  struct dlk_list *waiting = dlk_redis_net_waiting(n->link);
  struct dlk_list *l, stay;
  dlk_list_init(&stay);
  while ((l = waiting->next) != waiting) {
    struct dlk_redis_req *r = DLK_CONTAINER(l, struct dlk_redis_req, entry);
    bool stays = r == &n->ask || r->route.asks ||
                 (r->slot >= 0 ? target(c, r) == n : n->mapped);
    dlk_list_remove(l);
    if (stays) {
      dlk_list_append(&stay, l);
      continue;
    }
    (void)unsend(r);
    dispatch(c, r);
  }
  while (!dlk_list_empty(&stay)) {
    l = stay.next;
    dlk_list_remove(l);
    dlk_list_append(waiting, l);
  }
}

static void unpark(struct cluster *c, const struct dlk_error *why, int64_t at) {
  struct dlk_list left;
  dlk_list_take(&c->parked, &left);
  while (!dlk_list_empty(&left)) {
    struct dlk_redis_req *r =
        DLK_CONTAINER(left.next, struct dlk_redis_req, entry);
    int64_t due = r->route.at;
    dlk_list_remove(&r->entry);
    if (why && (due == 0 || c->state != RUNNING))
      fail(r, why);
    else if (!why && due <= at && (due || c->map.nodes.known))
      dispatch(c, r);
    else
      dlk_list_append(&c->parked, &r->entry);
  }
}

static void map_taken(void *arg, struct dlk_redis_node *by,
                      const struct dlk_redis_news *news) {
  struct cluster *c = arg;
  sync_with(by);
  c->link.connections += news->changed;
  c->link.moves += news->changed;
  if (news->left) {
    dlk_net_event(c->host, c->conf, "failover",
                  "a primary has no slots any more; there are %zu now",
                  news->primaries);
    c->events->moved(c->arg);
  }
  if (c->wants_any) {
    memset(&c->wants, 0, sizeof c->wants);
    c->events->slots(c->arg, &c->wants);
    listen_all(c, NULL);
  }
  for (size_t i = 0; i < c->map.nodes.count; i++)
    if (c->map.nodes.all[i] && c->map.nodes.all[i]->state == DLK_NODE_LIVE)
      send_on(c, c->map.nodes.all[i]);
  unpark(c, NULL, 0);
}

static void map_failed(void *arg, const struct dlk_error *why) {
  struct cluster *c = arg;
  c->link.refused = NULL;
  if (!c->map.nodes.known && c->wants_any)
    c->events->unsubscribed(c->arg, DLK_REDIS_ANY_SLOT, why);
  unpark(c, why, 0);
  if (c->open > 0 || c->events->needed(c->arg))
    dlk_redis_map_need(&c->map);
}

static const struct dlk_redis_map_events map_events = {map_taken, map_failed};

static void on_timer(struct dlk_timer *timer, int64_t at) {
  struct cluster *c = DLK_CONTAINER(timer, struct cluster, timer);
  unpark(c, NULL, at);
  arm(c);
}

/* ---- the loop ---- */

static void flush(struct cluster *c) {
  if (c->state != RUNNING)
    return;
  for (size_t i = 0; i < c->map.nodes.count; i++) {
    struct dlk_redis_node *n = c->map.nodes.all[i];
    if (!n)
      continue;
    if (n->state == DLK_NODE_RETIRED) {
      dlk_redis_nodes_forget(&c->map.nodes, i);
      continue;
    }
    n->link->flush(n->link);
    if (n->lost)
      sync_with(n);
    if (!dlk_redis_map_lags(&c->map, n) && dlk_redis_map_spares(&c->map, n))
      retire(c, n);
  }
  if (c->open > 0)
    dlk_redis_map_use(&c->map);
}

static void link_flush(struct dlk_redis_link *link) {
  flush(of(link));
}

static void on_prepare(uv_prepare_t *h) {
  flush(h->data);
}

static void on_check(uv_check_t *h) {
  flush(h->data);
}

static void hook_closed(uv_handle_t *h) {
  struct cluster *c = h->data;
  c->hooks--;
  finish(c);
}

static void start(struct cluster *c) {
  if (c->state != NEW)
    return;
  c->state = RUNNING;
  uv_loop_t *loop = c->host->loop(c->host);
  (void)uv_prepare_init(loop, &c->prepare);
  (void)uv_check_init(loop, &c->check);
  c->prepare.data = c->check.data = c;
  c->hooks += 2;
  (void)uv_prepare_start(&c->prepare, on_prepare);
  (void)uv_check_start(&c->check, on_check);
  dlk_redis_map_start(&c->map);
}

/* ---- the link ---- */

static void link_submit(struct dlk_redis_link *link, struct dlk_redis_req *r) {
  struct cluster *c = of(link);
  start(c);
  r->route = (struct dlk_redis_route){.encode = r->encode, .done = r->done};
  r->narrow = false;
  dispatch(c, r);
}

static bool link_withdraw(struct dlk_redis_link *link,
                          struct dlk_redis_req *r) {
  struct cluster *c = of(link);
  struct dlk_redis_node *n = r->route.node;
  if (n && n->link->withdraw(n->link, r)) {
    (void)unsend(r);
    return true;
  }
  for (struct dlk_list *l = c->parked.next; !n && l != &c->parked; l = l->next)
    if (l == &r->entry) {
      dlk_list_remove(l);
      return true;
    }
  return false;
}

static void link_subscribe(struct dlk_redis_link *link, int slot) {
  struct cluster *c = of(link);
  start(c);
  dlk_redis_slots_put(&c->wants, slot, true);
  c->wants_any = true;
  if (!c->map.nodes.known)
    dlk_redis_map_need(&c->map);
  else if (dlk_redis_nodes_owner(&c->map.nodes, slot))
    listen_at(c, dlk_redis_nodes_owner(&c->map.nodes, slot), slot);
}

static bool link_subscribed(struct dlk_redis_link *link, int slot) {
  struct cluster *c = of(link);
  for (size_t i = 0; c->map.nodes.known && i < c->map.nodes.count; i++) {
    struct dlk_redis_node *n = c->map.nodes.all[i];
    if (n && n->state == DLK_NODE_LIVE &&
        (slot < 0 || dlk_redis_nodes_owner(&c->map.nodes, slot) == n) &&
        n->link->subscribed(n->link, slot))
      return true;
  }
  return false;
}

static void link_unsubscribe(struct dlk_redis_link *link) {
  struct cluster *c = of(link);
  memset(&c->wants, 0, sizeof c->wants);
  c->wants_any = false;
  for (size_t i = 0; i < c->map.nodes.count; i++)
    if (c->map.nodes.all[i] && c->map.nodes.all[i]->state == DLK_NODE_LIVE)
      c->map.nodes.all[i]->link->unsubscribe(c->map.nodes.all[i]->link);
}

static void link_retreat(struct dlk_redis_link *link,
                         const struct dlk_error *why) {
  struct dlk_redis_node *n = of(link)->answering;
  if (n)
    n->link->retreat(n->link, why);
}

static bool link_prompt(struct dlk_redis_link *link) {
  struct cluster *c = of(link);
  bool one = false;
  for (size_t i = 0; c->map.nodes.known && i < c->map.nodes.count; i++) {
    struct dlk_redis_node *n = c->map.nodes.all[i];
    if (!n || !n->mapped || !n->link->served)
      continue;
    if (!n->link->prompt(n->link))
      return false;
    one = true;
  }
  return one && dlk_list_empty(&c->parked);
}

static bool link_await(struct dlk_redis_link *link) {
  struct cluster *c = of(link);
  return c->open == 1 && c->last && dlk_list_empty(&c->parked) &&
         c->last->open == 1 && c->last->link->await(c->last->link);
}

static bool link_next_node(struct dlk_redis_link *link,
                           char id[DLK_REDIS_NODE_ID]) {
  const struct dlk_redis_node *n =
      dlk_redis_nodes_from(&of(link)->map.nodes, id, true);
  if (n)
    memcpy(id, n->id, sizeof n->id);
  return n != NULL;
}

static void link_stop(struct dlk_redis_link *link) {
  struct cluster *c = of(link);
  bool started = c->state == RUNNING;
  struct dlk_error why;
  if (c->state >= STOPPING)
    return;
  c->state = STOPPING;
  dlk_redis_map_stop(&c->map);
  c->host->timer_clear(c->host, &c->timer);
  c->hooks++; /* finish() must not end it yet */
  if (started) {
    uv_close((uv_handle_t *)&c->prepare, hook_closed);
    uv_close((uv_handle_t *)&c->check, hook_closed);
  }
  for (size_t i = 0; i < c->map.nodes.count; i++)
    if (c->map.nodes.all[i] && c->map.nodes.all[i]->state == DLK_NODE_LIVE)
      retire(c, c->map.nodes.all[i]);
  dlk_error_set(&why, DLK_CLOSED, "the store was closed");
  unpark(c, &why, 0);
  c->hooks--;
  finish(c);
}

static void link_destroy(struct dlk_redis_link *link) {
  struct cluster *c = of(link);
  for (size_t i = 0; i < c->map.nodes.count; i++)
    if (c->map.nodes.all[i])
      dlk_redis_nodes_forget(&c->map.nodes, i);
  free(c);
}

struct dlk_redis_link *dlk_redis_cluster_new(
    struct dlk_host *host, const struct dlk_conf *conf, struct dlk_net_tls *tls,
    const struct dlk_redis_settings *settings, const char *channel,
    const struct dlk_redis_link_events *events, void *arg) {
  struct cluster *c = calloc(1, sizeof *c);
  if (!c)
    return NULL;
  c->link = (struct dlk_redis_link){.submit = link_submit,
                                    .withdraw = link_withdraw,
                                    .subscribe = link_subscribe,
                                    .subscribed = link_subscribed,
                                    .unsubscribe = link_unsubscribe,
                                    .retreat = link_retreat,
                                    .flush = link_flush,
                                    .await = link_await,
                                    .prompt = link_prompt,
                                    .next_node = link_next_node,
                                    .stop = link_stop,
                                    .destroy = link_destroy};
  c->host = c->map.nodes.host = host;
  c->conf = c->map.nodes.conf = conf;
  c->map.nodes.tls = tls;
  c->map.nodes.settings = *settings;
  c->map.nodes.channel = channel;
  c->map.nodes.events = &node_events;
  c->map.nodes.router = c;
  c->events = events;
  c->arg = arg;
  c->timer.fire = on_timer;
  c->map.events = &map_events;
  dlk_net_wake_init(&c->map.nodes.wake, host);
  dlk_list_init(&c->parked);
  return &c->link;
}
