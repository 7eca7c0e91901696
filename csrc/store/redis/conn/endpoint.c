/* What is fixed needs no looking for. */
#include "store/redis/conn/endpoint.h"

#include "store/store.h"

#define DEFAULT_PORT 6379

static void locate(struct dlk_redis_endpoint *e, struct dlk_redis_seeker *who) {
  struct dlk_redis_fixed *f =
      DLK_CONTAINER(e, struct dlk_redis_fixed, endpoint);
  who->located(who, &f->address, NULL);
}

static void forget(struct dlk_redis_endpoint *e, struct dlk_redis_seeker *who) {
  (void)e;
  (void)who;
}

void dlk_redis_fixed_init(struct dlk_redis_fixed *f,
                          const struct dlk_conf *conf) {
  f->endpoint.locate = locate;
  f->endpoint.forget = forget;
  f->address.path = conf->path;
  if (conf->host_count == 0)
    return;
  f->address.host = conf->hosts[0].host;
  f->address.port = conf->hosts[0].port ? conf->hosts[0].port : DEFAULT_PORT;
}
