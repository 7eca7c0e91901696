/* See redis_host.h. The link writes nothing: what is submitted waits until
 * the simulation takes it, and ends when the simulation says so. */
#include <stdio.h>

#include "net/tls.h"
#include "redis_host.h"
#include "store/redis/conn/cluster.h"
#include "store/redis/conn/net.h"
#include "store/redis/conn/sentinel.h"

static struct client *linked(struct dlk_redis_link *link) {
  return DLK_CONTAINER(link, struct client, link);
}

static void link_submit(struct dlk_redis_link *link,
                        struct dlk_redis_req *req) {
  struct client *c = linked(link);
  if (c->request_count == REQUESTS)
    sim_die("too many requests");
  c->requests[c->request_count++] = (struct request){++c->last_id, req, false};
}

void sim_request_forget(struct client *c, size_t i) {
  memmove(c->requests + i, c->requests + i + 1,
          (--c->request_count - i) * sizeof c->requests[0]);
}

void sim_request_lose(struct client *c, size_t at, enum dlk_code code) {
  struct dlk_redis_req *req = c->requests[at].req;
  bool written = c->requests[at].written;
  struct dlk_error err;
  dlk_error_set(&err, code, "cut");
  sim_request_forget(c, at);
  struct dlk_redis_answer a = {
      .outcome = written ? DLK_REDIS_UNKNOWN : DLK_REDIS_UNSENT, .err = &err};
  req->done(req, &a);
}

static bool link_withdraw(struct dlk_redis_link *link,
                          struct dlk_redis_req *req) {
  struct client *c = linked(link);
  for (size_t i = 0; i < c->request_count; i++) {
    if (c->requests[i].req != req || c->requests[i].written)
      continue;
    sim_request_forget(c, i);
    return true;
  }
  return false;
}

static void link_subscribe(struct dlk_redis_link *link, int slot) {
  if (slot < 0)
    sim_complain("messages are wanted of no slot");
  linked(link)->wanted = true;
}

static bool link_subscribed(struct dlk_redis_link *link, int slot) {
  (void)slot;
  return linked(link)->subscribed;
}

static void link_unsubscribe(struct dlk_redis_link *link) {
  linked(link)->wanted = false;
}

static void link_retreat(struct dlk_redis_link *link,
                         const struct dlk_error *why) {
  (void)why;
  linked(link)->retreating = true;
}

static bool link_prompt(struct dlk_redis_link *link) {
  struct client *c = linked(link);
  return !c->retreating && (c->subscribed || !c->wanted);
}

static void link_stop(struct dlk_redis_link *link) {
  struct client *c = linked(link);
  while (c->request_count > 0)
    sim_request_lose(c, 0, DLK_CLOSED);
  c->events->stopped(c->arg);
}

static void link_destroy(struct dlk_redis_link *link) {
  (void)link;
}

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

/* No URL of the simulation names a cluster. */
struct dlk_redis_link *
dlk_redis_cluster_new(struct dlk_host *host, const struct dlk_conf *conf,
                      struct dlk_net_tls *tls,
                      const struct dlk_redis_settings *settings,
                      const char *channel,
                      const struct dlk_redis_link_events *events, void *arg) {
  (void)host;
  (void)conf;
  (void)tls;
  (void)settings;
  (void)channel;
  (void)events;
  (void)arg;
  return NULL;
}

struct dlk_redis_link *
dlk_redis_net_new(struct dlk_host *host, const struct dlk_conf *conf,
                  struct dlk_net_endpoint *endpoint,
                  const struct dlk_redis_settings *settings,
                  const char *channel,
                  const struct dlk_redis_link_events *events, void *arg) {
  struct client *c = sim_running;
  (void)host;
  (void)conf;
  (void)endpoint;
  (void)settings;
  c->events = events;
  c->arg = arg;
  c->channel = channel;
  c->link = (struct dlk_redis_link){.submit = link_submit,
                                    .withdraw = link_withdraw,
                                    .subscribe = link_subscribe,
                                    .subscribed = link_subscribed,
                                    .unsubscribe = link_unsubscribe,
                                    .retreat = link_retreat,
                                    .prompt = link_prompt,
                                    .stop = link_stop,
                                    .destroy = link_destroy};
  c->link.served = true;
  return &c->link;
}
