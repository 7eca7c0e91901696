/* The endpoint with one address, and addresses as text. */
#include "net/endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/host.h"

static void locate(struct dlk_net_endpoint *e, struct dlk_net_seeker *who) {
  struct dlk_net_fixed *f = DLK_CONTAINER(e, struct dlk_net_fixed, endpoint);
  who->located(who, &f->address, NULL);
}

void dlk_net_fixed_init(struct dlk_net_fixed *f, const struct dlk_conf *conf,
                        size_t host, uint16_t port, struct dlk_net_tls *tls) {
  f->endpoint.locate = locate;
  f->address.path = conf->path;
  f->address.tls = tls;
  if (conf->host_count == 0)
    return;
  f->address.host = conf->hosts[host].host;
  f->address.port = conf->hosts[host].port ? conf->hosts[host].port : port;
}

/* ---- places ---- */

bool dlk_net_place_is(const struct dlk_net_place *a,
                      const struct dlk_net_place *b) {
  return a->port == b->port && strcmp(a->host, b->host) == 0;
}

struct dlk_net_place_text
dlk_net_place_text(const struct dlk_net_place *place) {
  struct dlk_net_place_text t;
  bool v6 = strchr(place->host, ':') != NULL;
  snprintf(t.text, sizeof t.text, "%s%s%s:%u", v6 ? "[" : "", place->host,
           v6 ? "]" : "", (unsigned)place->port);
  return t;
}

bool dlk_net_place_read(struct dlk_net_place *place, const char *text) {
  const char *colon = strrchr(text, ':');
  size_t len = colon ? (size_t)(colon - text) : 0;
  if (len > 1 && text[0] == '[' && text[len - 1] == ']') {
    text++;
    len -= 2;
  }
  char *end;
  unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
  if (len == 0 || len >= sizeof place->host || port < 1 || port > UINT16_MAX ||
      *end)
    return false;
  memcpy(place->host, text, len);
  place->host[len] = '\0';
  place->port = (uint16_t)port;
  return true;
}
