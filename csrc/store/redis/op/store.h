/* One store. The operations know the network only by link.h and the engine only
 * by store.h, so a simulation can run them as they are. */
#ifndef DLK_STORE_REDIS_OP_STORE_H
#define DLK_STORE_REDIS_OP_STORE_H

#include "core/trace.h"
#include "net/endpoint.h"
#include "store/redis/conn/link.h"
#include "store/redis/op/fence.h"
#include "store/redis/op/lately.h"
#include "store/redis/op/token.h"
#include "store/redis/wire/names.h"
#include "store/store.h"

#define DLK_REDIS_CROWDED_FOR DLK_SEC

struct dlk_redis {
  struct dlk_host *host;
  struct dlk_conf conf;
  struct dlk_net_tls *tls; /* NULL: without */
  struct dlk_net_endpoint *endpoint;
  struct dlk_net_fixed fixed; /* it, unless Sentinels are asked */
  struct dlk_redis_link *link;
  struct dlk_redis_names names;
  struct dlk_redis_fences fences;
  struct dlk_redis_lately crowded; /* others wanted the key */
  struct dlk_redis_tokens tokens;  /* of waits and holds */
  struct dlk_list waits, watches;  /* operations that wait: wait.c, leader.c */
  struct dlk_list listeners;       /* likewise, for the subscription: hold.c */
  struct dlk_list orphans;         /* orphan.c */
  size_t orphan_count;
  struct dlk_timer quiet;   /* subscription.c */
  int64_t clock_warned;     /* hold.c */
  uint64_t names_barred_on; /* link->connections when EVALSHA was refused */
  uint64_t texts_on;        /* link->connections when `texts` was begun */
  uint32_t texts;           /* bit n: script n was sent there by its text */
  bool stopping;
  unsigned replicas; /* that must have a grant before it counts */
  int64_t max_ttl;   /* above 0: it is a Redlock's node (recipe/vote.h) */
  char channel[32];  /* ours, for messages */
};

static inline int64_t dlk_redis_now(struct dlk_redis *s) {
  return s->host->now(s->host);
}

static inline bool dlk_redis_is_crowded(struct dlk_redis *s, const char *key,
                                        size_t len) {
  int64_t until = dlk_redis_lately(&s->crowded, key, len);
  return until >= 0 && until > dlk_redis_now(s);
}

static inline void dlk_redis_mark_crowded(struct dlk_redis *s, const char *key,
                                          size_t len) {
  dlk_redis_lately_mark(&s->crowded, key, len,
                        dlk_redis_now(s) + DLK_REDIS_CROWDED_FOR);
}

#endif
