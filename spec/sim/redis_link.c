/* See redis_host.h. What a cluster's router owes to its nodes is looked at
 * where it gives a request to one of them:
 * - a request of a slot goes to the node that was told last to have it, but for
 *   one that ASK sends on;
 * - after six redirects it pauses, for 5 ms at first and 100 ms at last. */
#include <stdio.h>
#include <stdlib.h>

#include "net/tls.h"
#include "redis_host.h"
#include "store/redis/conn/cluster.h"
#include "store/redis/conn/sentinel.h"

#define HOPS 5

struct dlk_net_endpoint *dlk_redis_sentinel_new(struct dlk_host *host,
                                                const struct dlk_conf *conf,
                                                struct dlk_net_tls *tls) {
  (void)host;
  (void)conf;
  (void)tls;
  return NULL; /* nobody asks for them here */
}

enum dlk_code dlk_net_tls_new(const struct dlk_conf *conf, const char *alpn,
                              struct dlk_net_tls **out, struct dlk_error *err) {
  (void)conf;
  (void)alpn;
  (void)err;
  *out = NULL;
  return DLK_OK;
}

void dlk_net_tls_free(struct dlk_net_tls *tls) {
  (void)tls;
}

/* ---- the way of a request of the store ---- */

static struct way *way_of(struct client *c, const struct dlk_redis_req *req) {
  for (size_t i = 0; i < WAYS; i++)
    if (c->ways[i].req == req)
      return &c->ways[i];
  return NULL;
}

bool sim_router_works(const struct client *c) {
  for (size_t i = 0; i < WAYS; i++)
    if (c->ways[i].req)
      return true;
  return false;
}

static void over(struct dlk_redis_req *req, const struct dlk_redis_answer *a) {
  struct way *w = way_of(sim_running, req);
  w->req = NULL;
  req->done = w->done;
  req->done(req, a);
}

static void submit(struct dlk_redis_link *link, struct dlk_redis_req *req) {
  struct client *c = sim_running;
  struct way *w = way_of(c, NULL);
  if (!w)
    sim_die("too many requests");
  if (way_of(c, req))
    sim_complain("a request is submitted that is under way");
  *w = (struct way){.req = req, .done = req->done};
  req->done = over;
  c->router.submit(link, req);
}

static bool withdraw(struct dlk_redis_link *link, struct dlk_redis_req *req) {
  struct way *w = way_of(sim_running, req);
  if (!w || !sim_running->router.withdraw(link, req))
    return false;
  w->req = NULL;
  req->done = w->done;
  return true;
}

void sim_router_watch(struct client *c) {
  struct dlk_redis_link *link = sim_store(c)->link;
  c->router = *link;
  link->submit = submit;
  link->withdraw = withdraw;
}

static int64_t pauses(unsigned count) {
  int64_t sum = 0, span = 5 * DLK_MS;
  for (unsigned i = 0; i < count;
       i++, span = span < 50 * DLK_MS ? 2 * span : 100 * DLK_MS)
    sum += span;
  return sum;
}

void sim_redirected(struct client *c, const struct dlk_redis_req *req,
                    const char *text) {
  struct way *w = way_of(c, req);
  int slot;
  if (sscanf(text, "MOVED %d %63[^:]", &slot, c->told) != 2 &&
      strncmp(text, "ASK ", 4) != 0 && strncmp(text, "TRYAGAIN", 8) != 0)
    return;
  if (!w)
    return;
  w->since = w->redirects ? w->since : sim_time;
  if (sim_time - w->since < pauses(w->redirects++ / (HOPS + 1)))
    sim_complain("a request is redirected on and on without a pause");
}

static void submits(struct still_link *s, struct dlk_redis_req *req) {
  struct client *c = sim_running;
  const struct server_link *l = (struct server_link *)(void *)s;
  bool is_asked_for_map = !req->route.node;
  if (!is_asked_for_map && req->slot >= 0 && !req->route.asks && c->told[0] &&
      strcmp(c->told, l->host) != 0)
    sim_complain("a request goes to a node that was told to lack its slot");
}

/* ---- links ---- */

static void destroys(struct still_link *s) {
  struct server_link *l = (struct server_link *)(void *)s;
  sim_running->links[l->number] = NULL;
  free(l);
}

struct dlk_redis_link *
dlk_redis_net_new(struct dlk_host *host, const struct dlk_conf *conf,
                  struct dlk_net_endpoint *endpoint,
                  const struct dlk_redis_settings *settings,
                  const char *channel,
                  const struct dlk_redis_link_events *events, void *arg) {
  struct client *c = sim_running;
  struct server_link *l = calloc(1, sizeof *l);
  (void)host;
  (void)conf;
  (void)channel;
  if (!l)
    sim_die("out of memory");
  still_init(&l->still, events, arg);
  l->still.destroys = destroys;
  l->host =
      DLK_CONTAINER(endpoint, struct dlk_net_fixed, endpoint)->address.host;
  if (c->link_count == LINKS)
    sim_die("too many links");
  l->number = c->link_count++;
  c->links[l->number] = l;
  if (!settings->cluster)
    return &l->still.link;
  l->still.submits = submits;
  l->still.sharded = true;
  l->still.up = l->still.link.served = false;
  l->still.link.connections = 0;
  return &l->still.link;
}
