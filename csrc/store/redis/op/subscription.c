/* The subscription stays for a minute after the last wait or hold. */
#include "store/redis/op/subscription.h"

#define QUIET_AFTER (60 * DLK_SEC)

bool dlk_redis_subscription_needed(const struct dlk_redis *s) {
  return s->tokens.map.count > 0 || !dlk_list_empty(&s->waits) ||
         !dlk_list_empty(&s->watches);
}

void dlk_redis_subscription_rest(struct dlk_redis *s) {
  if (s->stopping || s->quiet.node.queued || dlk_redis_subscription_needed(s) ||
      !s->link->subscribed(s->link, DLK_REDIS_ANY_SLOT))
    return;
  s->host->timer_set(s->host, &s->quiet, dlk_redis_now(s) + QUIET_AFTER);
}

static void on_quiet(struct dlk_timer *timer, int64_t now) {
  struct dlk_redis *s = DLK_CONTAINER(timer, struct dlk_redis, quiet);
  (void)now;
  if (!dlk_redis_subscription_needed(s))
    s->link->unsubscribe(s->link);
}

void dlk_redis_subscription_init(struct dlk_redis *s) {
  s->quiet.fire = on_quiet;
}
