/* Finds one primary in the answers of several Sentinels. */
#ifndef DLK_STORE_REDIS_CONN_AGREE_H
#define DLK_STORE_REDIS_CONN_AGREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/endpoint.h"

struct redisReply;

enum dlk_redis_said {
  DLK_REDIS_SAID_NOTHING, /* no answer yet, or none */
  DLK_REDIS_SAID_ADDRESS,
  DLK_REDIS_SAID_UNKNOWN, /* the name is unknown there */
  DLK_REDIS_SAID_NO       /* a refusal */
};

struct dlk_redis_opinion {
  enum dlk_redis_said said;
  int64_t epoch;               /* -1: refused */
  int64_t replicas, sentinels; /* known there; -1: refused */
  struct dlk_net_place place;
};

struct dlk_redis_agreement {
  const struct dlk_net_place *place; /* NULL: none */
  const struct dlk_net_place *a,
      *b;     /* if there is no `place`: two that differ */
  bool stale; /* all voters are behind `seen` */
  bool most;  /* more than half of the list name an address */
  int64_t epoch;
  /* The most that is known of `place`; -1: all refuse. */
  int64_t replicas, sentinels;
};

/* The replies to SENTINEL MASTER and GET-MASTER-ADDR-BY-NAME. */
void dlk_redis_opinion_view(struct dlk_redis_opinion *o,
                            const struct redisReply *reply);
void dlk_redis_opinion_place(struct dlk_redis_opinion *o,
                             const struct redisReply *reply);

/* seen: the newest agreed epoch, or -1. */
struct dlk_redis_agreement dlk_redis_agree(const struct dlk_redis_opinion *all,
                                           size_t count, int64_t seen);

#endif
