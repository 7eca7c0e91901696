/* What is told as events of Sentinels, and of the servers that they watch. */
#ifndef DLK_STORE_REDIS_CONN_REPORT_H
#define DLK_STORE_REDIS_CONN_REPORT_H

#include "store/redis/conn/agree.h"
#include "store/redis/conn/witness.h"

struct dlk_redis_report {
  const struct dlk_redis_sentinels *all;
  bool lost;                   /* told: they name no primary */
  int64_t replicas, sentinels; /* how many there were; -1: not known yet */
};

void dlk_redis_report_init(struct dlk_redis_report *r,
                           const struct dlk_redis_sentinels *all);
/* Whether one of them answers as a Sentinel of this primary, when its question
 * has ended. *bad: it was told that it does not. */
void dlk_redis_report_witness(const struct dlk_redis_report *r,
                              const struct dlk_redis_witness *w, bool *bad);
/* Whether they name a primary, when a round has ended; quarrel: why not, if
 * that is no matter of one of them alone, or NULL. */
void dlk_redis_report_round(struct dlk_redis_report *r, bool lost,
                            const struct dlk_error *quarrel);
/* Another primary took over. */
void dlk_redis_report_moved(const struct dlk_redis_report *r,
                            const struct dlk_net_place *from,
                            const struct dlk_net_place *to);
/* Which servers there are; moved: the primary is another one. */
void dlk_redis_report_servers(struct dlk_redis_report *r, bool moved,
                              const struct dlk_redis_agreement *agreed);

#endif
