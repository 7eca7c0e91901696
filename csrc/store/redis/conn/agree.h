/* Makes one primary out of the answers of several Sentinels. No network and no
 * time. */
#ifndef DLK_STORE_REDIS_CONN_AGREE_H
#define DLK_STORE_REDIS_CONN_AGREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/endpoint.h"

struct redisReply;

enum dlk_redis_said {
  DLK_REDIS_SAID_NOTHING, /* no answer, or none yet */
  DLK_REDIS_SAID_ADDRESS,
  DLK_REDIS_SAID_UNKNOWN, /* it does not know the name */
  DLK_REDIS_SAID_NO       /* it refuses */
};

struct dlk_redis_opinion {
  enum dlk_redis_said said; /* to the last question */
  int64_t epoch; /* of the configuration it speaks of; -1: it may not say */
  int64_t replicas, sentinels; /* that it knows of; -1: likewise */
  struct dlk_net_place place;
};

struct dlk_redis_agreement {
  const struct dlk_net_place *place; /* NULL: there is none, */
  const struct dlk_net_place *a, *b; /* because these two are named */
  bool stale; /* because all who answered know less than was known */
  bool most;  /* more than half of the list name some address */
  int64_t epoch;
  /* The most that one who names `place` knows of; -1: none may say. */
  int64_t replicas, sentinels;
};

/* The answers to SENTINEL MASTER and to SENTINEL GET-MASTER-ADDR-BY-NAME. */
void dlk_redis_opinion_view(struct dlk_redis_opinion *o,
                            const struct redisReply *reply);
void dlk_redis_opinion_place(struct dlk_redis_opinion *o,
                             const struct redisReply *reply);

/* seen: the newest epoch that was agreed on so far, or -1. */
struct dlk_redis_agreement dlk_redis_agree(const struct dlk_redis_opinion *all,
                                           size_t count, int64_t seen);

#endif
