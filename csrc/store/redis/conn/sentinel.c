/* Asks all Sentinels of the list at once, each by a connection of its own, and
 * follows what they agree on (agree.c).
 *
 * A round asks each of them that has no question under way. It ends when all
 * have answered or failed. It ends earlier with what those say who answered, if
 * they agree: after WAIT_FOR_ALL if they are more than half of the list, or
 * half of all Sentinels (agree.c), after WAIT_FOR_MOST if they are fewer. The
 * nearest Sentinel may be the one that was cut off, so it alone is believed
 * only where the others seem to be away; then one of them is enough, since
 * where most are away nobody fails over. After half of connect_timeout a round
 * ends without an address, too, if anybody said anything: one that is silent
 * must not hide what the others say is wrong.
 *
 * An answer that comes after its round is judged together with what the round
 * heard. So a newer configuration is followed whenever it is said, and what few
 * said is followed for no longer than the others take. If the late answer is
 * an old one, so is its epoch, and it changes nothing; nor does a quarrel: what
 * was agreed on stays.
 *
 * As long as anybody seeks, also while it already connects to what was found, a
 * round begins DLK_REDIS_SENTINEL_PAUSE after the last one did: a machine that
 * is dead, but still named, then costs nothing more when the Sentinels name
 * another one. The connections that stand are told of a new address too, and
 * end.
 *
 * A round also follows when something speaks against the server that is
 * connected to: too few replicas follow it, because they follow another one
 * by now. In the middle of a round that is kept for its end, as news are: who
 * answered in it may have done so before.
 *
 * While messages are listened for (somebody holds or waits) one Sentinel is
 * subscribed to +switch-master, the next one of the list when that is lost.
 * What it says is no address to use, only a reason for a round: it may be old.
 *
 * What becomes of this as events stands in report.c. That one of them answers
 * is known when its question ends, and that they name a primary when a round
 * ends.
 *
 * Two places hold the address, turn by turn, so that an address that was told
 * stays until the next one is told. */
#include "store/redis/conn/sentinel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis/conn/agree.h"
#include "store/redis/conn/news.h"
#include "store/redis/conn/report.h"
#include "store/redis/conn/witness.h"

#define WAIT_FOR_ALL (200 * DLK_MS)
/* Half of connect_timeout if that is less: the rest is for connecting. */
#define WAIT_FOR_MOST DLK_SEC
/* What was agreed on so lately is not asked for again. */
#define FRESH (50 * DLK_MS)

struct sentinel {
  struct dlk_net_endpoint endpoint; /* first: handed out */
  struct dlk_redis_sentinels all;
  struct dlk_host *host;
  const struct dlk_conf *conf;
  struct dlk_list seekers;
  struct dlk_timer timer;
  bool asking, filling, stopped; /* filling: questions are being handed out */
  bool doubted;                  /* another round is due */
  size_t open;                   /* questions under way */
  int64_t asked_at, agreed_at, epoch;
  uint64_t turn; /* how many addresses there were */
  struct dlk_net_place places[2];
  struct dlk_net_address address;
  struct dlk_redis_news news;
  struct dlk_redis_report report;
  struct dlk_redis_opinion *said; /* one of each, while they are judged */
  struct witness {
    struct dlk_redis_witness w; /* first */
    struct sentinel *sentinel;
    bool bad; /* report.c's */
  } witnesses[];
};

static struct sentinel *of(struct dlk_net_endpoint *e) {
  return (struct sentinel *)(void *)e;
}

/* ---- telling ---- */

static bool anybody_seeks(const struct sentinel *s) {
  for (struct dlk_list *l = s->seekers.next; l != &s->seekers; l = l->next)
    if (!DLK_CONTAINER(l, struct dlk_net_seeker, entry)->settled)
      return true;
  return false;
}

/* Each that does not know it yet; why: not NULL when there is no address. Who
 * is told may forget, and seek again. */
static void tell(struct sentinel *s, const struct dlk_error *why) {
  struct dlk_list left;
  uint64_t turn = s->turn;
  dlk_list_take(&s->seekers, &left);
  while (!dlk_list_empty(&left)) {
    struct dlk_net_seeker *who =
        DLK_CONTAINER(left.next, struct dlk_net_seeker, entry);
    dlk_list_remove(&who->entry);
    dlk_list_append(&s->seekers, &who->entry);
    if (why ? who->told > 0 : who->told == turn)
      continue;
    who->told = why ? 0 : turn;
    who->located(who, why ? NULL : &s->address, why);
  }
}

static void use(struct sentinel *s, const struct dlk_net_place *named) {
  struct dlk_net_place place = *named;
  const struct dlk_option *map = dlk_option_find(
      &s->conf->options, "address_map", dlk_net_place_text(named).text);
  if (map)
    (void)dlk_net_place_read(&place, map->text);
  if (s->turn > 0 && dlk_net_place_is(&place, &s->places[s->turn % 2]))
    return;
  if (s->turn > 0)
    dlk_redis_report_moved(&s->report, &s->places[s->turn % 2], &place);
  s->turn++;
  s->places[s->turn % 2] = place;
  s->address.host = s->places[s->turn % 2].host;
  s->address.port = place.port;
}

/* ---- judging ---- */

static void disagree(const struct sentinel *s,
                     const struct dlk_redis_agreement *agreed,
                     struct dlk_error *err) {
  if (agreed->stale)
    dlk_error_set(err, DLK_UNAVAILABLE,
                  "%s: the Sentinels that answer are behind what others said "
                  "before; are some cut off?",
                  s->conf->shown);
  else
    dlk_error_set(err, DLK_UNAVAILABLE,
                  "%s: its Sentinels do not agree: one names %s, another one "
                  "%s",
                  s->conf->shown, dlk_net_place_text(agreed->a).text,
                  dlk_net_place_text(agreed->b).text);
}

/* None of them named an address: what was said that helps most. */
static void nobody_knows(const struct sentinel *s, struct dlk_error *err) {
  bool unknown = false;
  const struct dlk_error *no = NULL;
  for (size_t i = 0; i < s->conf->host_count; i++) {
    const struct dlk_redis_witness *w = &s->witnesses[i].w;
    unknown = unknown || w->opinion.said == DLK_REDIS_SAID_UNKNOWN;
    if (w->opinion.said == DLK_REDIS_SAID_NO)
      no = &w->why;
  }
  if (no)
    *err = *no;
  else if (unknown)
    dlk_error_set(err, DLK_INVALID,
                  "%s: these Sentinels do not know a primary of the name "
                  "'%.64s'; check it (SENTINEL MASTERS)",
                  s->conf->shown, s->all.master);
  else
    dlk_error_set(err, DLK_UNAVAILABLE, "%s: no Sentinel answers (%.200s)",
                  s->conf->shown, dlk_redis_witness_why(&s->witnesses[0].w));
}

/* The next round, if there is a reason for it by then. */
static void round_due(struct sentinel *s) {
  s->host->timer_set(s->host, &s->timer,
                     dlk_time_add(s->asked_at, DLK_REDIS_SENTINEL_PAUSE));
}

static void round_over(struct sentinel *s) {
  s->asking = false;
  s->host->busy(s->host, -1);
  round_due(s);
}

/* What it points to is good until the next one. */
static struct dlk_redis_agreement agreement(const struct sentinel *s) {
  size_t count = s->conf->host_count;
  for (size_t i = 0; i < count; i++)
    s->said[i] = s->witnesses[i].w.opinion;
  return dlk_redis_agree(s->said, count, s->epoch);
}

static void follow(struct sentinel *s,
                   const struct dlk_redis_agreement *agreed) {
  uint64_t turn = s->turn;
  s->epoch = agreed->epoch;
  if (agreed->replicas >= 0)
    s->endpoint.replicas = agreed->replicas;
  dlk_redis_report_round(&s->report, false, NULL);
  use(s, agreed->place);
  dlk_redis_report_servers(&s->report, s->turn != turn, agreed);
  tell(s, NULL);
}

/* How long a round waits for an address; who seeks waits for twice that. */
static int64_t most_patience(const struct sentinel *s) {
  int64_t half = s->conf->connect_timeout / 2;
  return half < WAIT_FOR_ALL ? WAIT_FOR_ALL : half;
}

/* How long for more who name it. */
static int64_t patience(const struct sentinel *s) {
  int64_t most = most_patience(s);
  return most < WAIT_FOR_MOST ? most : WAIT_FOR_MOST;
}

/* In this round, whatever it was. */
static bool anybody_spoke(const struct sentinel *s) {
  for (size_t i = 0; i < s->conf->host_count; i++)
    if (s->witnesses[i].w.opinion.said != DLK_REDIS_SAID_NOTHING)
      return true;
  return false;
}

/* Whether the round may end although some have not answered. */
static bool enough(struct sentinel *s,
                   const struct dlk_redis_agreement *agreed) {
  int64_t span = agreed->place ? patience(s) : most_patience(s);
  int64_t until = dlk_time_add(s->asked_at, span);
  if (agreed->place && (agreed->most || agreed->half))
    return true;
  if (s->host->now(s->host) >= until)
    return anybody_spoke(s);
  s->host->timer_set(s->host, &s->timer, until);
  return false;
}

/* last: nobody will say anything more in this round. */
static void judge(struct sentinel *s, bool last) {
  struct dlk_redis_agreement agreed = agreement(s);
  struct dlk_error why;
  if (!last && !enough(s, &agreed))
    return;
  round_over(s);
  if (agreed.place) {
    s->agreed_at = s->host->now(s->host);
    follow(s, &agreed);
    return;
  }
  bool quarrel = agreed.a || agreed.stale;
  if (quarrel)
    disagree(s, &agreed, &why);
  else
    nobody_knows(s, &why);
  dlk_redis_report_round(&s->report, true, quarrel ? &why : NULL);
  tell(s, &why);
}

/* One of them answered after the round's end. */
static void judge_late(struct sentinel *s) {
  struct dlk_redis_agreement agreed = agreement(s);
  if (agreed.place)
    follow(s, &agreed);
}

/* ---- rounds ---- */

static void answered(struct dlk_redis_witness *w) {
  struct witness *one = (struct witness *)(void *)w;
  struct sentinel *s = one->sentinel;
  s->open--;
  if (s->stopped)
    return;
  dlk_redis_report_witness(&s->report, w, &one->bad);
  if (s->filling)
    return;
  if (!s->asking)
    judge_late(s);
  else if (s->open == 0 || s->host->now(s->host) - s->asked_at >= WAIT_FOR_ALL)
    judge(s, s->open == 0);
}

static void round_begin(struct sentinel *s) {
  if (s->asking || s->stopped)
    return;
  s->asking = true;
  s->doubted = false;
  s->host->busy(s->host, 1);
  s->asked_at = s->host->now(s->host);
  s->host->timer_set(s->host, &s->timer,
                     dlk_time_add(s->asked_at, WAIT_FOR_ALL));
  s->filling = true;
  for (size_t i = 0; i < s->conf->host_count; i++) {
    struct dlk_redis_witness *w = &s->witnesses[i].w;
    if (w->asked)
      continue;
    s->open++;
    dlk_redis_witness_ask(w);
  }
  s->filling = false;
  if (s->open == 0)
    judge(s, true);
}

static void heard(struct dlk_redis_news *n) {
  struct sentinel *s = DLK_CONTAINER(n, struct sentinel, news);
  bool soon = s->host->now(s->host) - s->asked_at < DLK_REDIS_SENTINEL_PAUSE;
  s->doubted = s->asking || soon;
  if (!s->doubted)
    round_begin(s);
  else if (!s->asking)
    round_due(s);
}

static void on_timer(struct dlk_timer *timer, int64_t now) {
  struct sentinel *s = DLK_CONTAINER(timer, struct sentinel, timer);
  (void)now;
  if (s->asking)
    judge(s, s->open == 0);
  else if (s->doubted || anybody_seeks(s))
    round_begin(s);
}

/* ---- the endpoint ---- */

static void locate(struct dlk_net_endpoint *e, struct dlk_net_seeker *who) {
  struct sentinel *s = of(e);
  dlk_list_remove(&who->entry);
  dlk_list_append(&s->seekers, &who->entry);
  who->settled = false;
  who->told = 0;
  if (s->agreed_at && s->host->now(s->host) - s->agreed_at < FRESH) {
    who->told = s->turn;
    who->located(who, &s->address, NULL);
    if (!s->asking)
      round_due(s);
    return;
  }
  round_begin(s);
}

static void settle(struct dlk_net_endpoint *e, struct dlk_net_seeker *who) {
  (void)e;
  who->settled = true;
}

static void forget(struct dlk_net_endpoint *e, struct dlk_net_seeker *who) {
  if (!dlk_list_empty(&who->entry))
    of(e)->agreed_at = 0; /* it may have failed there */
  dlk_list_remove(&who->entry);
}

/* By the timer, since who doubts is in the middle of something. */
static void doubt(struct dlk_net_endpoint *e) {
  struct sentinel *s = of(e);
  if (s->stopped || s->doubted)
    return;
  s->doubted = true;
  if (!s->asking)
    round_due(s);
}

static void start(struct dlk_net_endpoint *e, struct dlk_net_wake *wake,
                  unsigned *alive, void (*gone)(void *arg), void *arg) {
  struct sentinel *s = of(e);
  s->news.wake = wake;
  s->all.gone = gone;
  s->all.gone_arg = arg;
  s->news.conn.net.alive = alive;
  for (size_t i = 0; i < s->conf->host_count; i++)
    s->witnesses[i].w.conn.net.alive = alive;
}

static void flush(struct dlk_net_endpoint *e, bool listening) {
  struct sentinel *s = of(e);
  if (s->stopped)
    return;
  dlk_redis_news_want(&s->news, listening);
  for (size_t i = 0; s->open > 0 && i < s->conf->host_count; i++)
    dlk_redis_conn_flush(&s->witnesses[i].w.conn);
}

static void stop(struct dlk_net_endpoint *e) {
  struct sentinel *s = of(e);
  s->stopped = true;
  s->host->timer_clear(s->host, &s->timer);
  if (s->asking)
    s->host->busy(s->host, -1);
  s->asking = false;
  for (size_t i = 0; i < s->conf->host_count; i++)
    dlk_net_conn_stop(&s->witnesses[i].w.conn.net);
  dlk_redis_news_want(&s->news, false);
  dlk_net_conn_stop(&s->news.conn.net);
}

static void destroy(struct dlk_net_endpoint *e) {
  struct sentinel *s = of(e);
  for (size_t i = 0; i < s->conf->host_count; i++)
    dlk_net_conn_free(&s->witnesses[i].w.conn.net);
  dlk_net_conn_free(&s->news.conn.net);
  dlk_secret_free(s->all.secret);
  free(s);
}

static void init(struct sentinel *s, struct dlk_host *host,
                 const struct dlk_conf *conf) {
  size_t len = strcspn(conf->path + 1, "/");
  s->all.host = s->host = host;
  s->all.conf = s->conf = conf;
  s->all.username = dlk_option_text(&conf->options, "sentinel_username");
  snprintf(s->all.master, sizeof s->all.master, "%.*s", (int)len,
           conf->path + 1);
  s->epoch = -1;
  dlk_redis_report_init(&s->report, &s->all);
  s->timer.fire = on_timer;
  dlk_list_init(&s->seekers);
  s->news.heard = heard;
  dlk_redis_news_init(&s->news, &s->all);
  for (size_t i = 0; i < conf->host_count; i++) {
    s->witnesses[i].sentinel = s;
    s->witnesses[i].w.answered = answered;
    dlk_redis_witness_init(&s->witnesses[i].w, &s->all, i);
  }
}

struct dlk_net_endpoint *dlk_redis_sentinel_new(struct dlk_host *host,
                                                const struct dlk_conf *conf,
                                                struct dlk_net_tls *tls) {
  size_t count = conf->host_count;
  size_t each = sizeof(struct witness) + sizeof(struct dlk_redis_opinion);
  struct sentinel *s = calloc(1, sizeof *s + count * each);
  if (s)
    s->all.secret = dlk_secret_new(
        dlk_option_text(&conf->options, "sentinel_password"),
        dlk_option_text(&conf->options, "sentinel_password_file"), false);
  if (!s || !s->all.secret) {
    free(s);
    return NULL;
  }
  s->endpoint = (struct dlk_net_endpoint){.locate = locate,
                                          .settle = settle,
                                          .forget = forget,
                                          .changes = true,
                                          .replicas = -1,
                                          .role = "the primary",
                                          .doubt = doubt,
                                          .start = start,
                                          .flush = flush,
                                          .stop = stop,
                                          .destroy = destroy};
  s->all.tls = s->address.tls = tls;
  s->said = (void *)(s->witnesses + count);
  init(s, host, conf);
  return &s->endpoint;
}
