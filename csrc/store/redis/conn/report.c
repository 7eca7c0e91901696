/* Only a change is an event, so a state that lasts is told once: that one of
 * the Sentinels answers, that they name a primary, and which servers they know
 * of. Here stands what was told last; whoever asks them says when there is
 * something new. Each of the three is looked at once for each answer or each
 * round, and a round has its shortest time, which bounds how often anything is
 * told. */
#include "store/redis/conn/report.h"

#include <stdio.h>

#include "net/event.h"

void dlk_redis_report_witness(const struct dlk_redis_report *r,
                              const struct dlk_redis_witness *w, bool *bad) {
  struct dlk_host *host = r->all->host;
  bool is_bad = w->opinion.said != DLK_REDIS_SAID_ADDRESS;
  if (is_bad == *bad)
    return;
  *bad = is_bad;
  struct dlk_net_server_text name = dlk_redis_witness_name(w);
  char text[900];
  if (!is_bad)
    snprintf(text, sizeof text, "%s answers again", name.text);
  else if (w->opinion.said == DLK_REDIS_SAID_UNKNOWN)
    snprintf(text, sizeof text,
             "%s does not know a primary of the name '%.64s'", name.text,
             r->all->master);
  else if (w->opinion.said == DLK_REDIS_SAID_NO)
    snprintf(text, sizeof text, "%s", w->why.text); /* names it */
  else
    snprintf(text, sizeof text, "%s does not answer (%.200s)", name.text,
             dlk_redis_witness_why(w));
  host->event(host, "sentinel", text);
}

void dlk_redis_report_round(struct dlk_redis_report *r, bool lost,
                            const struct dlk_error *quarrel) {
  struct dlk_host *host = r->all->host;
  if (lost == r->lost)
    return;
  r->lost = lost;
  if (quarrel)
    host->event(host, "sentinel", quarrel->text);
  else
    dlk_net_event(host, r->all->conf, "sentinel",
                  lost ? "none of its Sentinels names a primary"
                       : "its Sentinels name a primary again");
}

void dlk_redis_report_moved(const struct dlk_redis_report *r,
                            const struct dlk_net_place *from,
                            const struct dlk_net_place *to) {
  dlk_net_event(r->all->host, r->all->conf, "failover",
                "the primary is %s now, it was %s", dlk_net_place_text(to).text,
                dlk_net_place_text(from).text);
}

static const char *plural(int64_t count) {
  return count == 1 ? "" : "s";
}

/* The first time it is not told. */
void dlk_redis_report_servers(struct dlk_redis_report *r, bool moved,
                              const struct dlk_redis_agreement *agreed) {
  int64_t replicas = agreed->replicas, sentinels = agreed->sentinels;
  bool first = r->replicas < 0;
  if (replicas < 0 ||
      (!moved && replicas == r->replicas && sentinels == r->sentinels))
    return;
  r->replicas = replicas;
  r->sentinels = sentinels;
  if (!first)
    dlk_net_event(r->all->host, r->all->conf, "topology",
                  "%s is the primary, with %lld replica%s and %lld "
                  "Sentinel%s",
                  dlk_net_place_text(agreed->place).text, (long long)replicas,
                  plural(replicas), (long long)sentinels, plural(sentinels));
}

void dlk_redis_report_init(struct dlk_redis_report *r,
                           const struct dlk_redis_sentinels *all) {
  r->all = all;
  r->replicas = r->sentinels = -1;
}
