/* A subscription to what a Sentinel says of a change of primaries. */
#ifndef DLK_STORE_REDIS_CONN_NEWS_H
#define DLK_STORE_REDIS_CONN_NEWS_H

#include "net/wake.h"
#include "store/redis/conn/witness.h"

struct dlk_redis_news {
  const struct dlk_redis_sentinels *all;
  struct dlk_redis_conn conn;
  struct dlk_net_endpoint turns; /* another Sentinel each time */
  struct dlk_net_fixed at;
  struct dlk_redis_req hello;
  size_t next;
  bool refused;              /* told */
  struct dlk_net_wake *wake; /* set before it is wanted */
  /* Another server may be the primary of that name now. */
  void (*heard)(struct dlk_redis_news *n);
};

/* One that is all zeros but for `heard`. */
void dlk_redis_news_init(struct dlk_redis_news *n,
                         const struct dlk_redis_sentinels *all);
void dlk_redis_news_want(struct dlk_redis_news *n, bool wanted);

#endif
