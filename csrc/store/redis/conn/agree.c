/* I1  Only the Sentinels of the highest named epoch vote: a cut-off one names
 *     the old primary under an older epoch.
 * I2  More than half of these must name one address: in a failover the leader
 *     names the new primary before it counts the epoch up.
 * I3  An epoch older than `seen` is believed only if more than half of the list
 *     name an address (they were reset). Else a stale Sentinel would win while
 *     the others are away.
 * I4  A Sentinel that refuses SENTINEL MASTER has epoch -1, behind all others.
 * I5  The most servers that a voter knows are counted. A slow Sentinel's last
 *     answer counts here until the next one, or the number would fall and
 *     rise. */
#include "store/redis/conn/agree.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SERVERS 1000000

static bool is_count(int64_t value) {
  return value >= 0 && value <= MOST_SERVERS;
}

static void view(struct dlk_redis_opinion *o, const char *name, int64_t value) {
  if (strcmp(name, "config-epoch") == 0)
    o->epoch = value;
  else if (strcmp(name, "num-slaves") == 0 && is_count(value))
    o->replicas = value;
  else if (strcmp(name, "num-other-sentinels") == 0 && is_count(value))
    o->sentinels = value + 1;
}

void dlk_redis_opinion_view(struct dlk_redis_opinion *o,
                            const redisReply *reply) {
  o->epoch = o->replicas = o->sentinels = -1;
  if (reply->type != REDIS_REPLY_ARRAY)
    return;
  for (size_t i = 0; i + 1 < reply->elements; i += 2) {
    const redisReply *name = reply->element[i], *value = reply->element[i + 1];
    bool words =
        name->type == REDIS_REPLY_STRING && value->type == REDIS_REPLY_STRING;
    if (words)
      view(o, name->str, strtoll(value->str, NULL, 10));
  }
}

/* People see it and the resolver gets it. */
static bool is_word(const redisReply *reply) {
  if (reply->type != REDIS_REPLY_STRING || reply->len == 0)
    return false;
  for (size_t i = 0; i < reply->len; i++)
    if (reply->str[i] <= ' ' || reply->str[i] > '~')
      return false;
  return true;
}

void dlk_redis_opinion_place(struct dlk_redis_opinion *o,
                             const redisReply *reply) {
  o->said = DLK_REDIS_SAID_NOTHING;
  if (reply->type == REDIS_REPLY_NIL)
    o->said = DLK_REDIS_SAID_UNKNOWN;
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
      !is_word(reply->element[0]) || !is_word(reply->element[1]) ||
      reply->element[0]->len >= sizeof o->place.host)
    return;
  char *end;
  long port = strtol(reply->element[1]->str, &end, 10);
  if (port < 1 || port > UINT16_MAX || *end)
    return;
  o->said = DLK_REDIS_SAID_ADDRESS;
  snprintf(o->place.host, sizeof o->place.host, "%s", reply->element[0]->str);
  o->place.port = (uint16_t)port;
}

static bool names(const struct dlk_redis_opinion *o, int64_t epoch) {
  return o->said == DLK_REDIS_SAID_ADDRESS && (epoch < 0 || o->epoch == epoch);
}

static size_t votes_for(const struct dlk_redis_opinion *all, size_t count,
                        int64_t epoch, const struct dlk_net_place *place) {
  size_t votes = 0;
  for (size_t i = 0; i < count; i++)
    if (names(&all[i], epoch) &&
        (!place || dlk_net_place_is(&all[i].place, place)))
      votes++;
  return votes;
}

/* Returns an address other than `place` (NULL: any). */
static const struct dlk_net_place *named(const struct dlk_redis_opinion *all,
                                         size_t count, int64_t epoch,
                                         const struct dlk_net_place *place) {
  for (size_t i = 0; i < count; i++)
    if (names(&all[i], epoch) &&
        (!place || !dlk_net_place_is(&all[i].place, place)))
      return &all[i].place;
  return NULL;
}

static void count_servers(struct dlk_redis_agreement *agreed,
                          const struct dlk_redis_opinion *all, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (all[i].epoch != agreed->epoch ||
        !dlk_net_place_is(&all[i].place, agreed->place))
      continue;
    if (all[i].replicas > agreed->replicas)
      agreed->replicas = all[i].replicas;
    if (all[i].sentinels > agreed->sentinels)
      agreed->sentinels = all[i].sentinels;
  }
}

struct dlk_redis_agreement dlk_redis_agree(const struct dlk_redis_opinion *all,
                                           size_t count, int64_t seen) {
  struct dlk_redis_agreement agreed = {
      .epoch = -1, .replicas = -1, .sentinels = -1};
  for (size_t i = 0; i < count; i++)
    if (names(&all[i], -1) && all[i].epoch > agreed.epoch)
      agreed.epoch = all[i].epoch;
  size_t voters = votes_for(all, count, agreed.epoch, NULL);
  agreed.most = 2 * votes_for(all, count, -1, NULL) > count;
  agreed.stale = voters > 0 && agreed.epoch < seen && !agreed.most;
  if (voters == 0 || agreed.stale)
    return agreed;
  for (size_t i = 0; i < count && !agreed.place; i++)
    if (names(&all[i], agreed.epoch) &&
        2 * votes_for(all, count, agreed.epoch, &all[i].place) > voters)
      agreed.place = &all[i].place;
  if (agreed.place) {
    count_servers(&agreed, all, count);
  } else {
    agreed.a = named(all, count, agreed.epoch, NULL);
    agreed.b = named(all, count, agreed.epoch, agreed.a);
  }
  return agreed;
}
