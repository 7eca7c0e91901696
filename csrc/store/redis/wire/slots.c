/* Both come from servers, so each number and name is checked. */
#include "store/redis/wire/slots.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis/wire/names.h"
#include "store/redis/wire/reply.h"

/* "?" stands for a name that is set, and unknown. */
static bool is_host(const char *host, size_t len) {
  for (size_t i = 0; i < len; i++)
    if (host[i] <= ' ' || host[i] > '~')
      return false;
  return len > 0 && len < sizeof(struct dlk_net_place){0}.host &&
         !(len == 1 && host[0] == '?');
}

static bool set_host(struct dlk_net_place *place, const char *host,
                     size_t len) {
  place->host[0] = '\0';
  if (!is_host(host, len))
    return false;
  memcpy(place->host, host, len);
  place->host[len] = '\0';
  return true;
}

bool dlk_redis_range_read(const redisReply *range, const char *asked,
                          struct dlk_redis_range *out) {
  int64_t first = dlk_redis_int(range, 0, -1);
  int64_t last = dlk_redis_int(range, 1, -1);
  const redisReply *node = dlk_redis_at(range, 2);
  const redisReply *host = dlk_redis_at(node, 0), *id = dlk_redis_at(node, 2);
  int64_t port = dlk_redis_int(node, 1, -1);
  bool named = host->type == REDIS_REPLY_STRING && host->len > 0;
  if (first < 0 || last < first || last >= (int64_t)DLK_REDIS_SLOTS ||
      port < 1 || port > UINT16_MAX || id->type != REDIS_REPLY_STRING ||
      id->len < DLK_REDIS_NODE_ID - 1)
    return false;
  out->first = (unsigned)first;
  out->last = (unsigned)last;
  out->place.port = (uint16_t)port;
  for (int i = 0; i < DLK_REDIS_NODE_ID - 1; i++)
    if (!strchr("0123456789abcdef", id->str[i]) || !id->str[i])
      return false;
  snprintf(out->id, sizeof out->id, "%s", id->str);
  return set_host(&out->place, named ? host->str : asked,
                  named ? host->len : strlen(asked));
}

/* "MOVED 3999 host:port" */
static enum dlk_redis_redirect place_of(const char *text, const char *asked,
                                        enum dlk_redis_redirect kind,
                                        unsigned *slot,
                                        struct dlk_net_place *place) {
  char *end;
  unsigned long n = strtoul(text, &end, 10);
  const char *colon = strrchr(end, ':'), *host = end + 1;
  unsigned long port = colon ? strtoul(colon + 1, NULL, 10) : 0;
  if (end == text || *end != ' ' || n >= DLK_REDIS_SLOTS)
    return DLK_REDIS_NOWHERE;
  *slot = (unsigned)n;
  place->host[0] = '\0';
  place->port = (uint16_t)port;
  if (!colon || colon < host || port < 1 || port > UINT16_MAX)
    return kind;
  bool named = colon > host;
  (void)set_host(place, named ? host : asked,
                 named ? (size_t)(colon - host) : strlen(asked));
  return kind;
}

enum dlk_redis_redirect dlk_redis_redirect_read(const char *text,
                                                const char *asked,
                                                unsigned *slot,
                                                struct dlk_net_place *place) {
  if (strncmp(text, "MOVED ", 6) == 0)
    return place_of(text + 6, asked, DLK_REDIS_MOVED, slot, place);
  if (strncmp(text, "ASK ", 4) == 0)
    return place_of(text + 4, asked, DLK_REDIS_ASK, slot, place);
  if (strncmp(text, "TRYAGAIN", 8) == 0)
    return DLK_REDIS_TRYAGAIN;
  if (strncmp(text, "CLUSTERDOWN", 11) == 0)
    return DLK_REDIS_CLUSTERDOWN;
  return DLK_REDIS_NOWHERE;
}
