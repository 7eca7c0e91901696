/* A node is known by the place that the cluster names; a map that names another
 * one for it makes another node. Numbers are used again once a node is gone, so
 * only a node without slots may go. */
#include "store/redis/conn/nodes.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT 6379

static struct dlk_redis_node *new_node(struct dlk_redis_nodes *s, size_t i,
                                       const struct dlk_net_place *place) {
  struct dlk_redis_settings settings = s->settings;
  struct dlk_redis_node *n = calloc(1, sizeof *n);
  if (!n)
    return NULL;
  n->router = s->router;
  n->number = (uint16_t)(i + 1);
  n->place = n->reached = *place;
  const struct dlk_option *to = dlk_option_find(
      &s->conf->options, "address_map", dlk_net_place_text(place).text);
  if (to)
    (void)dlk_net_place_read(&n->reached, to->text);
  dlk_net_fixed_init(&n->at, s->conf, 0, PORT, s->tls);
  n->at.endpoint.role = "the node";
  n->at.address.host = n->reached.host;
  n->at.address.port = n->reached.port;
  settings.cluster = true;
  settings.wake = &s->wake;
  settings.wake_at = (int)i * DLK_NET_WAKE_KINDS;
  n->link = dlk_redis_net_new(s->host, s->conf, &n->at.endpoint, &settings,
                              s->channel, s->events, n);
  if (!n->link) {
    free(n);
    return NULL;
  }
  s->all[i] = n;
  s->count = i < s->count ? s->count : i + 1;
  s->alive++;
  return n;
}

struct dlk_redis_node *dlk_redis_nodes_at(struct dlk_redis_nodes *s,
                                          const struct dlk_net_place *place) {
  size_t room = s->count;
  for (size_t i = s->count; i > 0; i--) {
    struct dlk_redis_node *n = s->all[i - 1];
    if (!n)
      room = i - 1;
    else if (n->state == DLK_NODE_LIVE && dlk_net_place_is(&n->place, place))
      return n;
  }
  return room < DLK_REDIS_NODES ? new_node(s, room, place) : NULL;
}

void dlk_redis_nodes_seed(struct dlk_redis_nodes *s) {
  struct dlk_net_place place;
  for (size_t i = 0; i < s->conf->host_count; i++) {
    const struct dlk_addr *a = &s->conf->hosts[i];
    snprintf(place.host, sizeof place.host, "%s", a->host);
    place.port = a->port ? a->port : PORT;
    (void)dlk_redis_nodes_at(s, &place);
  }
}

void dlk_redis_nodes_forget(struct dlk_redis_nodes *s, size_t i) {
  s->all[i]->link->destroy(s->all[i]->link);
  free(s->all[i]);
  s->all[i] = NULL;
}

struct dlk_redis_node *dlk_redis_nodes_owner(const struct dlk_redis_nodes *s,
                                             int slot) {
  return s->owners[slot] ? s->all[s->owners[slot] - 1] : NULL;
}

struct dlk_redis_node *dlk_redis_nodes_any(const struct dlk_redis_nodes *s) {
  struct dlk_redis_node *found = NULL;
  for (size_t i = 0; i < s->count; i++)
    if (s->all[i] && s->all[i]->mapped &&
        (!found || dlk_redis_net_stands(s->all[i]->link)))
      found = s->all[i];
  return found;
}

struct dlk_redis_node *dlk_redis_nodes_from(const struct dlk_redis_nodes *s,
                                            const char *id, bool behind) {
  struct dlk_redis_node *found = NULL;
  for (size_t i = 0; i < s->count; i++) {
    struct dlk_redis_node *n = s->all[i];
    if (n && n->mapped && strcmp(n->id, id) >= behind &&
        (!found || strcmp(n->id, found->id) < 0))
      found = n;
  }
  return found;
}

/* Fills `next` and marks its nodes; returns how many there are. */
static size_t read_map(struct dlk_redis_nodes *s, const char *asked,
                       const redisReply *reply) {
  struct dlk_redis_range r;
  size_t primaries = 0;
  memset(s->next, 0, sizeof s->next);
  for (size_t i = 0; i < reply->elements; i++) {
    if (!dlk_redis_range_read(reply->element[i], asked, &r))
      continue;
    struct dlk_redis_node *n = dlk_redis_nodes_at(s, &r.place);
    if (!n)
      continue;
    memcpy(n->id, r.id, sizeof n->id);
    primaries += !n->mapped;
    n->mapped = true;
    for (unsigned slot = r.first; slot <= r.last; slot++)
      s->next[slot] = n->number;
  }
  return primaries;
}

bool dlk_redis_nodes_map(struct dlk_redis_nodes *s,
                         const struct dlk_redis_node *by,
                         const redisReply *reply, struct dlk_redis_news *news) {
  bool was[DLK_REDIS_NODES] = {false};
  for (size_t i = 0; i < s->count; i++)
    if (s->all[i]) {
      was[i] = s->all[i]->mapped;
      s->all[i]->mapped = false;
    }
  news->primaries = read_map(s, by->reached.host, reply);
  news->left = false;
  for (size_t i = 0; i < s->count; i++) {
    if (was[i] && news->primaries == 0)
      s->all[i]->mapped = true;
    news->left = news->left || (was[i] && !s->all[i]->mapped);
  }
  if (news->primaries == 0)
    return false;
  news->changed = s->known && memcmp(s->owners, s->next, sizeof s->next) != 0;
  memcpy(s->owners, s->next, sizeof s->next);
  s->known = true;
  return true;
}
