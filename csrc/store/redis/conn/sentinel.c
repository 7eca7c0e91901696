/* Asks all Sentinels of the list at once, each by a connection of its own, and
 * follows the primary that they agree on (agree.c).
 *
 * A round asks each of them that has no question under way. It ends when all
 * have answered or failed; earlier, after WAIT_FOR_ALL, if more than half of
 * the list agree; and at the latest after WAIT_FOR_MOST (or half of
 * connect_timeout), with what was said, if anything was. The nearest Sentinel
 * may be the one that was cut off, so it alone is believed only where the
 * others seem to be away. Where most are away nobody fails over, so then one of
 * them is enough.
 *
 * An answer that comes after its round is judged together with what the round
 * heard. So a newer configuration is followed whenever it is said. A late
 * answer that is old has an old epoch and changes nothing.
 *
 * A round begins PAUSE after the last one did
 * - while a connection seeks, also while it connects to what was found: a
 *   machine that is dead, but still named, costs nothing more when the
 *   Sentinels name another one. Connections that stand are told of a new
 *   address too, and end;
 * - when something speaks against the server that is connected to (`doubt`):
 * too few replicas follow it, or a Sentinel said +switch-master. In the middle
 * of a round that is kept for its end: a Sentinel that answered in it may have
 *   done so before.
 *
 * While messages are listened for, one Sentinel is subscribed to
 * +switch-master, the next one of the list when that is lost. Its word is no
 * address to use, only a reason for a round: it may be old.
 *
 * Events tell changes only, so a state that lasts is told once: that one of the
 * Sentinels names a primary, that they all do, and which servers they know of.
 *
 * Two places hold the address, turn by turn, so that an address that was told
 * stays until the next one is told. */
#include "store/redis/conn/sentinel.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/event.h"
#include "net/wake.h"
#include "store/redis/conn/agree.h"
#include "store/redis/conn/auth.h"
#include "store/redis/conn/conn.h"
#include "store/redis/wire/errors.h"

#define PORT 26379
#define ROLE "the Sentinel"
/* Between two attempts to connect to a Sentinel at most, and two rounds. */
#define PAUSE (250 * DLK_MS)
#define WAIT_FOR_ALL (200 * DLK_MS)
/* Half of connect_timeout if that is less: the rest is for connecting. */
#define WAIT_FOR_MOST DLK_SEC
/* An agreement so fresh is used without a round. */
#define FRESH (50 * DLK_MS)

/* One Sentinel: the connection to it, the question, and its answer. */
struct witness {
  struct dlk_redis_conn conn;
  struct sentinel *sentinel;
  struct dlk_net_fixed at;
  struct dlk_redis_req hello, ask;
  bool asked; /* a question is under way */
  bool bad;   /* an event said that it names no primary */
  struct dlk_redis_opinion *opinion; /* one of sentinel->said */
  struct dlk_error why;              /* it says no, or nothing */
};

struct sentinel {
  struct dlk_redis_primary primary; /* first: handed out */
  struct dlk_host *host;
  const struct dlk_conf *conf; /* its hosts are the Sentinels */
  char master[256];
  const char *username;
  struct dlk_secret *secret;
  void (*gone)(void *arg); /* as in sock.h, but of all connections */
  void *gone_arg;
  struct dlk_list seekers;
  struct dlk_timer timer;
  bool asking, stopped; /* asking: a round is under way; */
  bool filling;         /* its questions are being handed out */
  bool doubted;         /* another round is due */
  size_t open;          /* questions under way */
  int64_t asked_at, agreed_at, epoch;
  uint64_t turn; /* how many addresses there were */
  struct dlk_net_place places[2];
  struct dlk_net_address address;
  /* The subscription to +switch-master. */
  struct dlk_redis_conn news;
  struct dlk_net_endpoint next; /* another Sentinel each time */
  struct dlk_redis_req news_hello;
  struct dlk_net_wake *wake;
  size_t turns;
  bool news_refused; /* told */
  /* As the last events told: */
  bool lost;                      /* they name no primary */
  int64_t replicas, sentinels;    /* how many there were; -1: not known yet */
  struct dlk_redis_opinion *said; /* one of each */
  struct witness witnesses[];
};

static struct sentinel *of(struct dlk_net_endpoint *e) {
  return (struct sentinel *)(void *)e;
}

static int64_t now(const struct sentinel *s) {
  return s->host->now(s->host);
}

/* ---- what is said to a Sentinel, and its refusals ---- */

/* AUTH, if that is wanted, before one more command. */
static void put_auth(const struct sentinel *s, struct dlk_redis_req *r,
                     struct dlk_buf *out) {
  struct dlk_redis_auth auth = {.username = s->username, .secret = s->secret};
  r->secret = dlk_redis_auth_put(&auth, out);
  r->replies = r->secret ? 2 : 1;
}

static void explain(const struct dlk_redis_conn *c,
                    const struct dlk_redis_req *r, const char *text,
                    struct dlk_error *err) {
  struct dlk_net_server_text name = dlk_net_conn_name(&c->net);
  char quote[120] = "";
  if (!r->secret)
    snprintf(quote, sizeof quote, " (%.100s)", text);
  if (strncmp(text, "NOPERM", 6) == 0)
    dlk_error_set(err, DLK_DENIED,
                  "%s: its user needs the rights in docs/security.md%s",
                  name.text, quote);
  else if (dlk_redis_fault_find(text)->code == DLK_DENIED)
    dlk_error_set(err, DLK_DENIED,
                  "%s refuses us%s; check sentinel_username and "
                  "sentinel_password, which are not those of Redis",
                  name.text, quote);
  else if (strstr(text, "unknown command"))
    dlk_error_set(err, DLK_INVALID,
                  "%s is no Sentinel; check host and port (26379 as a rule)",
                  name.text);
  else if (r->secret)
    dlk_redis_fault_unquoted(err, text, name.text, "AUTH");
  else
    dlk_redis_fault_error(err, text, name.text);
}

/* The end of a handshake; true: the connection is ready. */
static bool greeted(struct dlk_redis_conn *c, const struct dlk_redis_req *r,
                    const struct dlk_redis_answer *a) {
  struct dlk_error why;
  if (a->outcome != DLK_REDIS_ANSWERED)
    return false;
  if (a->refusal) {
    explain(c, r, a->refusal, &why);
    dlk_net_conn_refuse(&c->net, &why);
    return false;
  }
  dlk_net_conn_ready(&c->net);
  dlk_redis_conn_flush(c);
  return true;
}

/* ---- telling ---- */

static bool anybody_seeks(const struct sentinel *s) {
  for (struct dlk_list *l = s->seekers.next; l != &s->seekers; l = l->next)
    if (!DLK_CONTAINER(l, struct dlk_net_seeker, entry)->settled)
      return true;
  return false;
}

/* Each that does not know it yet; why: not NULL when there is no address. A
 * seeker that is told may forget, and seek again. */
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
  struct dlk_net_place place = *named, *before = &s->places[s->turn % 2];
  const struct dlk_option *map = dlk_option_find(
      &s->conf->options, "address_map", dlk_net_place_text(named).text);
  if (map)
    (void)dlk_net_place_read(&place, map->text);
  if (s->turn > 0 && dlk_net_place_is(&place, before))
    return;
  if (s->turn > 0)
    dlk_net_event(
        s->host, s->conf, "failover", "the primary is %s now, it was %s",
        dlk_net_place_text(&place).text, dlk_net_place_text(before).text);
  s->turn++;
  s->places[s->turn % 2] = place;
  s->address.host = s->places[s->turn % 2].host;
  s->address.port = place.port;
}

/* Why one says nothing, in a sentence that has named it already. */
static const char *reason(const struct witness *w) {
  struct dlk_net_server_text name = dlk_net_conn_name(&w->conn.net);
  const char *at = strstr(w->why.text, name.text);
  const char *behind = at ? at + strlen(name.text) : "";
  return strncmp(behind, ": ", 2) == 0 ? behind + 2 : w->why.text;
}

static void report_witness(struct witness *w) {
  const struct sentinel *s = w->sentinel;
  struct dlk_net_server_text name = dlk_net_conn_name(&w->conn.net);
  bool is_bad = w->opinion->said != DLK_REDIS_SAID_ADDRESS;
  char text[900];
  if (is_bad == w->bad)
    return;
  w->bad = is_bad;
  if (!is_bad)
    snprintf(text, sizeof text, "%s answers again", name.text);
  else if (w->opinion->said == DLK_REDIS_SAID_UNKNOWN)
    snprintf(text, sizeof text,
             "%s does not know a primary of the name '%.64s'", name.text,
             s->master);
  else if (w->opinion->said == DLK_REDIS_SAID_NO)
    snprintf(text, sizeof text, "%s", w->why.text); /* names it */
  else
    snprintf(text, sizeof text, "%s does not answer (%.200s)", name.text,
             reason(w));
  s->host->event(s->host, "sentinel", text);
}

/* quarrel: why they name none, if that is no matter of one of them alone. */
static void report_round(struct sentinel *s, bool lost,
                         const struct dlk_error *quarrel) {
  if (lost == s->lost)
    return;
  s->lost = lost;
  if (quarrel)
    s->host->event(s->host, "sentinel", quarrel->text);
  else
    dlk_net_event(s->host, s->conf, "sentinel",
                  lost ? "none of its Sentinels names a primary"
                       : "its Sentinels name a primary again");
}

/* moved: the primary is another one. The first time it is not told. */
static void report_servers(struct sentinel *s, bool moved,
                           const struct dlk_redis_agreement *agreed) {
  int64_t replicas = agreed->replicas, sentinels = agreed->sentinels;
  bool first = s->replicas < 0;
  if (replicas < 0 ||
      (!moved && replicas == s->replicas && sentinels == s->sentinels))
    return;
  s->replicas = replicas;
  s->sentinels = sentinels;
  if (!first)
    dlk_net_event(s->host, s->conf, "topology",
                  "%s is the primary, with %lld replica%s and %lld Sentinel%s",
                  dlk_net_place_text(agreed->place).text, (long long)replicas,
                  replicas == 1 ? "" : "s", (long long)sentinels,
                  sentinels == 1 ? "" : "s");
}

/* ---- judging ---- */

/* The next round, if there is a reason for it by then. */
static void round_due(struct sentinel *s) {
  s->host->timer_set(s->host, &s->timer, dlk_time_add(s->asked_at, PAUSE));
}

/* Its pointers are good until the next answer. */
static struct dlk_redis_agreement agreement(const struct sentinel *s) {
  return dlk_redis_agree(s->said, s->conf->host_count, s->epoch);
}

static void follow(struct sentinel *s,
                   const struct dlk_redis_agreement *agreed) {
  uint64_t turn = s->turn;
  s->epoch = agreed->epoch;
  if (agreed->replicas >= 0)
    s->primary.replicas = agreed->replicas;
  report_round(s, false, NULL);
  use(s, agreed->place);
  report_servers(s, s->turn != turn, agreed);
  tell(s, NULL);
}

/* There is no address: the most helpful reason. True: it is a quarrel. */
static bool why_none(const struct sentinel *s,
                     const struct dlk_redis_agreement *agreed,
                     struct dlk_error *err) {
  bool unknown = false;
  const struct dlk_error *no = NULL;
  const char *url = s->conf->shown;
  for (size_t i = 0; i < s->conf->host_count; i++) {
    const struct witness *w = &s->witnesses[i];
    unknown = unknown || w->opinion->said == DLK_REDIS_SAID_UNKNOWN;
    if (w->opinion->said == DLK_REDIS_SAID_NO)
      no = &w->why;
  }
  if (agreed->stale)
    dlk_error_set(err, DLK_UNAVAILABLE,
                  "%s: the Sentinels that answer are behind what others said "
                  "before; are some cut off?",
                  url);
  else if (agreed->a)
    dlk_error_set(err, DLK_UNAVAILABLE,
                  "%s: its Sentinels do not agree: one names %s, another one "
                  "%s",
                  url, dlk_net_place_text(agreed->a).text,
                  dlk_net_place_text(agreed->b).text);
  else if (no)
    *err = *no;
  else if (unknown)
    dlk_error_set(err, DLK_INVALID,
                  "%s: these Sentinels do not know a primary of the name "
                  "'%.64s'; check it (SENTINEL MASTERS)",
                  url, s->master);
  else
    dlk_error_set(err, DLK_UNAVAILABLE, "%s: no Sentinel answers (%.200s)", url,
                  reason(&s->witnesses[0]));
  return agreed->stale || agreed->a;
}

static bool anybody_spoke(const struct sentinel *s) {
  for (size_t i = 0; i < s->conf->host_count; i++)
    if (s->said[i].said != DLK_REDIS_SAID_NOTHING)
      return true;
  return false;
}

/* Whether the round may end although some have not answered. */
static bool enough(struct sentinel *s,
                   const struct dlk_redis_agreement *agreed) {
  int64_t half = s->conf->connect_timeout / 2, until;
  if (agreed->place && agreed->most)
    return true;
  until =
      dlk_time_add(s->asked_at, half < WAIT_FOR_MOST ? half : WAIT_FOR_MOST);
  if (now(s) >= until)
    return anybody_spoke(s);
  s->host->timer_set(s->host, &s->timer, until);
  return false;
}

/* A round is under way. */
static void judge(struct sentinel *s) {
  struct dlk_redis_agreement agreed = agreement(s);
  struct dlk_error why;
  if (s->open > 0 && !enough(s, &agreed))
    return;
  s->asking = false;
  s->host->busy(s->host, -1);
  round_due(s);
  if (agreed.place) {
    s->agreed_at = now(s);
    follow(s, &agreed);
    return;
  }
  bool quarrel = why_none(s, &agreed, &why);
  report_round(s, true, quarrel ? &why : NULL);
  tell(s, &why);
}

/* ---- rounds ---- */

static void round_begin(struct sentinel *s) {
  if (s->asking || s->stopped)
    return;
  s->asking = true;
  s->doubted = false;
  s->host->busy(s->host, 1);
  s->asked_at = now(s);
  s->host->timer_set(s->host, &s->timer,
                     dlk_time_add(s->asked_at, WAIT_FOR_ALL));
  s->filling = true;
  for (size_t i = 0; i < s->conf->host_count; i++) {
    struct witness *w = &s->witnesses[i];
    if (w->asked)
      continue;
    s->open++;
    w->opinion->said = DLK_REDIS_SAID_NOTHING; /* the rest: see agree.c */
    w->asked = true;
    dlk_redis_pipe_submit(&w->conn.pipe, &w->ask);
    dlk_redis_conn_flush(&w->conn);
  }
  s->filling = false;
  if (s->open == 0)
    judge(s);
}

static void on_timer(struct dlk_timer *timer, int64_t at) {
  struct sentinel *s = DLK_CONTAINER(timer, struct sentinel, timer);
  (void)at;
  if (s->asking)
    judge(s);
  else if (s->doubted || anybody_seeks(s))
    round_begin(s);
}

/* By the timer, since a caller may be in the middle of something. */
static void doubt(struct dlk_net_endpoint *e) {
  struct sentinel *s = of(e);
  if (s->stopped || s->doubted)
    return;
  s->doubted = true;
  if (!s->asking)
    round_due(s);
}

/* ---- one that is asked: for the epoch and the address in one write ---- */

static void encode_hello(struct dlk_redis_req *r, struct dlk_buf *out) {
  put_auth(DLK_CONTAINER(r, struct witness, hello)->sentinel, r, out);
  dlk_redis_put_array(out, 1);
  dlk_redis_put_text(out, "PING");
}

static void hello_done(struct dlk_redis_req *r,
                       const struct dlk_redis_answer *a) {
  (void)greeted(&DLK_CONTAINER(r, struct witness, hello)->conn, r, a);
}

static void encode_ask(struct dlk_redis_req *r, struct dlk_buf *out) {
  const struct witness *w = DLK_CONTAINER(r, struct witness, ask);
  static const char *const words[] = {"MASTER", "GET-MASTER-ADDR-BY-NAME"};
  r->replies = 2;
  for (int i = 0; i < 2; i++) {
    dlk_redis_put_array(out, 3);
    dlk_redis_put_text(out, "SENTINEL");
    dlk_redis_put_text(out, words[i]);
    dlk_redis_put_text(out, w->sentinel->master);
  }
}

/* The first answer may be a refusal (a user's rights). */
static void each(struct dlk_redis_req *r, unsigned index,
                 const redisReply *reply) {
  struct witness *w = DLK_CONTAINER(r, struct witness, ask);
  if (index == 0) {
    dlk_redis_opinion_view(w->opinion, reply);
    return;
  }
  if (reply->type == REDIS_REPLY_ERROR) {
    w->opinion->said = DLK_REDIS_SAID_NO;
    explain(&w->conn, r, reply->str, &w->why);
    return;
  }
  dlk_redis_opinion_place(w->opinion, reply);
  if (w->opinion->said != DLK_REDIS_SAID_NOTHING)
    return;
  w->opinion->said = DLK_REDIS_SAID_NO;
  dlk_error_set(&w->why, DLK_UNAVAILABLE, "%s answers what is no address",
                dlk_net_conn_name(&w->conn.net).text);
}

static void answered(struct dlk_redis_req *r,
                     const struct dlk_redis_answer *a) {
  struct witness *w = DLK_CONTAINER(r, struct witness, ask);
  struct sentinel *s = w->sentinel;
  w->asked = false;
  s->open--;
  if (a->outcome != DLK_REDIS_ANSWERED) {
    bool no = a->err->code == DLK_DENIED || a->err->code == DLK_INVALID;
    *w->opinion = (struct dlk_redis_opinion){
        .said = no ? DLK_REDIS_SAID_NO : DLK_REDIS_SAID_NOTHING};
    w->why = *a->err;
  }
  if (s->stopped)
    return;
  report_witness(w);
  if (s->filling) /* it could not even be asked */
    return;
  if (!s->asking) { /* late */
    struct dlk_redis_agreement agreed = agreement(s);
    if (agreed.place)
      follow(s, &agreed);
  } else if (s->open == 0 || now(s) - s->asked_at >= WAIT_FOR_ALL) {
    judge(s);
  }
}

static struct dlk_redis_req *handshake(struct dlk_redis_conn *c) {
  return &DLK_CONTAINER(c, struct witness, conn)->hello;
}

static void gone(void *arg) {
  const struct dlk_redis_conn *c = arg;
  const struct sentinel *s = c->arg;
  s->gone(s->gone_arg);
}

static const struct dlk_redis_conn_events witness_events = {
    .handshake = handshake, .gone = gone};

/* ---- one that is listened to ---- */

static void encode_news(struct dlk_redis_req *r, struct dlk_buf *out) {
  put_auth(DLK_CONTAINER(r, struct sentinel, news_hello), r, out);
  dlk_redis_put_array(out, 2);
  dlk_redis_put_text(out, "SUBSCRIBE");
  dlk_redis_put_text(out, "+switch-master");
}

/* A switch before that was not heard, so the Sentinels are asked. */
static void news_done(struct dlk_redis_req *r,
                      const struct dlk_redis_answer *a) {
  struct sentinel *s = DLK_CONTAINER(r, struct sentinel, news_hello);
  if (!greeted(&s->news, r, a))
    return;
  s->news_refused = false;
  dlk_net_wake_set(s->wake, DLK_NET_WAKE_NEWS,
                   dlk_net_sock_fd(s->news.net.sock));
  doubt(&s->primary.endpoint);
}

static struct dlk_redis_req *news_handshake(struct dlk_redis_conn *c) {
  return &DLK_CONTAINER(c, struct sentinel, news)->news_hello;
}

static void news_broken(struct dlk_redis_conn *c, bool asked,
                        const struct dlk_error *why) {
  (void)asked, (void)why;
  dlk_net_wake_set(DLK_CONTAINER(c, struct sentinel, news)->wake,
                   DLK_NET_WAKE_NEWS, -1);
}

/* Where the subscription is refused all else works, and a failover is noticed
 * late; so that is told, once. */
static void news_failed(struct dlk_redis_conn *c, const struct dlk_error *why) {
  struct sentinel *s = DLK_CONTAINER(c, struct sentinel, news);
  if (why->code != DLK_DENIED || s->news_refused)
    return;
  s->news_refused = true;
  s->host->event(s->host, "sentinel", why->text);
}

/* ["message", "+switch-master", "name old-host old-port host port"] */
static void push(struct dlk_redis_conn *c, const redisReply *reply) {
  struct sentinel *s = DLK_CONTAINER(c, struct sentinel, news);
  size_t len = strlen(s->master);
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
      reply->element[2]->type != REDIS_REPLY_STRING)
    return;
  const char *text = reply->element[2]->str;
  if (strncmp(text, s->master, len) == 0 && text[len] == ' ')
    doubt(&s->primary.endpoint);
}

static bool needed(struct dlk_redis_conn *c) {
  return c->net.wanted;
}

static const struct dlk_redis_conn_events news_events = {.handshake =
                                                             news_handshake,
                                                         .broken = news_broken,
                                                         .failed = news_failed,
                                                         .push = push,
                                                         .needed = needed,
                                                         .gone = gone};

static void locate_next(struct dlk_net_endpoint *e,
                        struct dlk_net_seeker *who) {
  struct sentinel *s = DLK_CONTAINER(e, struct sentinel, next);
  size_t i = s->turns++ % s->conf->host_count;
  who->located(who, &s->witnesses[i].at.address, NULL);
}

static void want_news(struct sentinel *s, bool wanted) {
  if (s->news.net.wanted == wanted)
    return;
  s->news.net.wanted = wanted;
  if (wanted) {
    dlk_net_conn_wake(&s->news.net);
  } else {
    dlk_net_wake_set(s->wake, DLK_NET_WAKE_NEWS, -1);
    dlk_net_conn_off(&s->news.net);
  }
}

/* ---- the endpoint ---- */

static void locate(struct dlk_net_endpoint *e, struct dlk_net_seeker *who) {
  struct sentinel *s = of(e);
  dlk_list_remove(&who->entry);
  dlk_list_append(&s->seekers, &who->entry);
  who->settled = false;
  who->told = 0;
  if (!s->agreed_at || now(s) - s->agreed_at >= FRESH) {
    round_begin(s);
    return;
  }
  who->told = s->turn;
  who->located(who, &s->address, NULL);
  if (!s->asking)
    round_due(s);
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

static void start(struct dlk_net_endpoint *e, struct dlk_net_wake *wake,
                  unsigned *alive, void (*all_gone)(void *arg), void *arg) {
  struct sentinel *s = of(e);
  s->wake = wake;
  s->gone = all_gone;
  s->gone_arg = arg;
  s->news.net.alive = alive;
  for (size_t i = 0; i < s->conf->host_count; i++)
    s->witnesses[i].conn.net.alive = alive;
}

static void flush(struct dlk_net_endpoint *e, bool listening) {
  struct sentinel *s = of(e);
  if (s->stopped)
    return;
  want_news(s, listening);
  for (size_t i = 0; s->open > 0 && i < s->conf->host_count; i++)
    dlk_redis_conn_flush(&s->witnesses[i].conn);
}

static void stop(struct dlk_net_endpoint *e) {
  struct sentinel *s = of(e);
  s->stopped = true;
  s->host->timer_clear(s->host, &s->timer);
  if (s->asking)
    s->host->busy(s->host, -1);
  s->asking = false;
  for (size_t i = 0; i < s->conf->host_count; i++)
    dlk_net_conn_stop(&s->witnesses[i].conn.net);
  want_news(s, false);
  dlk_net_conn_stop(&s->news.net);
}

static void destroy(struct dlk_net_endpoint *e) {
  struct sentinel *s = of(e);
  for (size_t i = 0; i < s->conf->host_count; i++)
    dlk_net_conn_free(&s->witnesses[i].conn.net);
  dlk_net_conn_free(&s->news.net);
  dlk_secret_free(s->secret);
  free(s);
}

static void init_witness(struct sentinel *s, size_t i,
                         struct dlk_net_tls *tls) {
  struct witness *w = &s->witnesses[i];
  w->sentinel = s;
  w->opinion = &s->said[i];
  dlk_net_fixed_init(&w->at, s->conf, i, PORT, tls);
  w->at.endpoint.role = ROLE;
  dlk_redis_conn_init(&w->conn, s->host, s->conf, &w->at.endpoint,
                      &witness_events, s);
  w->conn.net.pause = PAUSE;
  /* Its reason is there before a seeker's time is over. */
  w->conn.net.connect_timeout = s->conf->connect_timeout / 4 * 3;
  w->hello.encode = encode_hello;
  w->hello.done = hello_done;
  w->ask.encode = encode_ask;
  w->ask.each = each;
  w->ask.done = answered;
  dlk_list_init(&w->ask.entry);
}

static void init(struct sentinel *s, struct dlk_host *host,
                 const struct dlk_conf *conf, struct dlk_net_tls *tls) {
  size_t len = strcspn(conf->path + 1, "/");
  s->host = host;
  s->conf = conf;
  s->username = dlk_option_text(&conf->options, "sentinel_username");
  snprintf(s->master, sizeof s->master, "%.*s", (int)len, conf->path + 1);
  s->epoch = s->primary.replicas = s->replicas = s->sentinels = -1;
  s->timer.fire = on_timer;
  dlk_list_init(&s->seekers);
  s->next = (struct dlk_net_endpoint){.role = ROLE, .locate = locate_next};
  dlk_redis_conn_init(&s->news, host, conf, &s->next, &news_events, s);
  s->news.net.pause = PAUSE;
  s->news_hello.encode = encode_news;
  s->news_hello.done = news_done;
  for (size_t i = 0; i < conf->host_count; i++)
    init_witness(s, i, tls);
}

struct dlk_net_endpoint *dlk_redis_sentinel_new(struct dlk_host *host,
                                                const struct dlk_conf *conf,
                                                struct dlk_net_tls *tls) {
  size_t count = conf->host_count;
  size_t each_size = sizeof(struct witness) + sizeof(struct dlk_redis_opinion);
  struct sentinel *s = calloc(1, sizeof *s + count * each_size);
  if (s)
    s->secret = dlk_secret_new(
        dlk_option_text(&conf->options, "sentinel_password"),
        dlk_option_text(&conf->options, "sentinel_password_file"), false);
  if (!s || !s->secret) {
    free(s);
    return NULL;
  }
  s->primary.endpoint = (struct dlk_net_endpoint){.locate = locate,
                                                  .settle = settle,
                                                  .forget = forget,
                                                  .changes = true,
                                                  .role = "the primary",
                                                  .doubt = doubt,
                                                  .start = start,
                                                  .flush = flush,
                                                  .stop = stop,
                                                  .destroy = destroy};
  s->address.tls = tls;
  s->said = (void *)(s->witnesses + count);
  init(s, host, conf, tls);
  return &s->primary.endpoint;
}
