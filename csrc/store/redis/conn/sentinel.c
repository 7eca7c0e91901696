/* Asks all Sentinels at once and follows the primary that they agree on.
 *
 *   RESTING      -> DUE      doubt
 *   RESTING, DUE -> ASKING   ask: a seeker locates, or the timer fires
 *   ASKING       -> AGAIN    doubt: an answer may be older than its reason
 *   ASKING       -> RESTING  judge: the round is over
 *   AGAIN        -> DUE      judge
 *   any          -> STOPPED  stop
 *
 * I1  Only the Sentinels of the highest named epoch vote: a cut-off one names
 *     the old primary under an older epoch. One without the right has epoch -1.
 * I2  More than half of these must name one address: in a failover the leader
 *     names the new primary before it counts the epoch up.
 * I3  An epoch older than a known one is believed only if more than half of the
 *     list name an address (they were reset). Else a stale Sentinel would win
 *     while the others are away.
 * I4  The most servers that a voter knows are counted, by a slow Sentinel's
 *     last answer too: else the number would fall and rise.
 * I5  A round ends when all have answered; after WAIT_FOR_ALL, if more than
 *     half of the list name an address; after WAIT_FOR_MOST, if any spoke. Few
 *     are believed only while most are away: nobody can fail over then.
 * I6  A late answer is judged with those of its round: a newer epoch is
 *     followed whenever it is told.
 * I7  A connection that seeks or connects has a round begin each PAUSE: a dead
 *     machine costs no more time once another one is named.
 * I8  +switch-master may name an old address, so it only causes a doubt. */
#include "store/redis/conn/sentinel.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/event.h"
#include "net/wake.h"
#include "store/redis/conn/auth.h"
#include "store/redis/conn/conn.h"
#include "store/redis/wire/errors.h"
#include "store/redis/wire/reply.h"

#define PORT 26379
#define ROLE "the Sentinel"
/* Between two rounds, and between two attempts to connect at most. */
#define PAUSE (250 * DLK_MS)
#define WAIT_FOR_ALL (200 * DLK_MS)
/* Or half of connect_timeout: the rest is for connecting. */
#define WAIT_FOR_MOST DLK_SEC
/* An agreement so fresh needs no round. */
#define FRESH (50 * DLK_MS)
#define SERVERS_MAX 1000000

enum state { RESTING, DUE, ASKING, AGAIN, STOPPED };

/* The last answer; a later one explains a failure better. */
enum said { NOTHING, ADDRESS, UNKNOWN, REFUSAL };

/* One Sentinel. `ask` is in a list while its question is under way. */
struct witness {
  struct dlk_redis_conn conn; /* arg: the struct sentinel */
  struct dlk_redis_req hello, ask;
  struct dlk_net_fixed at;
  enum said said;
  int64_t epoch, replicas, others; /* others: Sentinels; -1: refused */
  struct dlk_net_place place;
  struct dlk_error why; /* it names no address */
  bool bad;             /* an event said so */
};

struct sentinel {
  struct dlk_redis_primary primary; /* first */
  struct dlk_host *host;
  const struct dlk_conf *conf;
  char master[256];
  struct dlk_redis_auth auth;
  void (*gone)(void *arg);
  void *gone_arg;
  enum state state;
  struct dlk_timer timer;
  size_t open; /* questions under way */
  int64_t asked_at, agreed_at, epoch, others;
  bool lost; /* an event said so */
  struct dlk_list seekers;
  size_t turn; /* counts addresses; each is valid until the next one */
  struct dlk_net_place places[2];
  struct dlk_net_address addresses[2];
  struct dlk_net_wake *wake;
  size_t news_from;  /* news connects there */
  bool news_refused; /* an event said so */
  size_t count;
  struct witness *news;       /* the last one: a subscription, no voter */
  struct witness witnesses[]; /* count, and news */
};

struct agreement {
  const struct dlk_net_place *place; /* NULL: none */
  const struct dlk_net_place *a, *b; /* without `place`: two that differ */
  bool stale;                        /* I3 */
  bool most; /* more than half of the list name an address */
  int64_t epoch, replicas, others;
};

static struct sentinel *of(struct dlk_net_endpoint *e) {
  return (struct sentinel *)(void *)e;
}

static int64_t now(const struct sentinel *s) {
  return s->host->now(s->host);
}

static bool is_asking(const struct sentinel *s) {
  return s->state == ASKING || s->state == AGAIN;
}

static void enter(struct sentinel *s, enum state state) {
  bool before = is_asking(s);
  s->state = state;
  if (before != is_asking(s))
    s->host->busy(s->host, before ? -1 : 1);
}

/* The timer begins the next round if there is a reason by then. */
static void set_next(struct sentinel *s) {
  if (s->state < ASKING)
    s->host->timer_set(s->host, &s->timer, dlk_time_add(s->asked_at, PAUSE));
}

/* ---- agreement ---- */

/* place: NULL for any. */
static size_t votes_for(const struct sentinel *s, int64_t epoch,
                        const struct dlk_net_place *place) {
  size_t votes = 0;
  for (const struct witness *w = s->witnesses; w < s->news; w++)
    if (w->said == ADDRESS && w->epoch == epoch &&
        (!place || dlk_net_place_is(&w->place, place)))
      votes++;
  return votes;
}

static int64_t more(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* Its pointers are good until the next answer. */
static struct agreement agree(const struct sentinel *s) {
  struct agreement agreed = {.epoch = -1, .replicas = -1, .others = -1};
  size_t named = 0;
  for (const struct witness *w = s->witnesses; w < s->news; w++) {
    if (w->said != ADDRESS)
      continue;
    named++;
    agreed.epoch = more(agreed.epoch, w->epoch);
  }
  agreed.most = 2 * named > s->count;
  agreed.stale = named > 0 && agreed.epoch < s->epoch && !agreed.most;
  if (named == 0 || agreed.stale)
    return agreed;
  size_t voters = votes_for(s, agreed.epoch, NULL);
  for (const struct witness *w = s->witnesses; w < s->news; w++) {
    size_t votes = votes_for(s, agreed.epoch, &w->place);
    if (2 * votes > voters)
      agreed.place = &w->place;
    else if (votes > 0 && !agreed.a)
      agreed.a = &w->place;
    else if (votes > 0 && !dlk_net_place_is(&w->place, agreed.a))
      agreed.b = &w->place;
  }
  for (const struct witness *w = s->witnesses; agreed.place && w < s->news; w++)
    if (w->epoch == agreed.epoch && dlk_net_place_is(&w->place, agreed.place)) {
      agreed.replicas = more(agreed.replicas, w->replicas);
      agreed.others = more(agreed.others, w->others);
    }
  return agreed;
}

static struct dlk_net_address *current(struct sentinel *s) {
  return &s->addresses[s->turn % 2];
}

/* Tells each seeker the address, or why there is none. A seeker may forget, and
 * seek again. */
static void tell(struct sentinel *s, const struct dlk_error *why) {
  struct dlk_list left;
  dlk_list_take(&s->seekers, &left);
  while (!dlk_list_empty(&left)) {
    struct dlk_net_seeker *who =
        DLK_CONTAINER(left.next, struct dlk_net_seeker, entry);
    dlk_list_remove(&who->entry);
    dlk_list_append(&s->seekers, &who->entry);
    who->located(who, why ? NULL : current(s), why);
  }
}

static void follow(struct sentinel *s, const struct agreement *a) {
  struct dlk_net_place place = *a->place, *before = &s->places[s->turn % 2];
  struct dlk_net_place_text named = dlk_net_place_text(&place);
  const struct dlk_option *map =
      dlk_option_find(&s->conf->options, "address_map", named.text);
  if (map)
    (void)dlk_net_place_read(&place, map->text);
  bool moved = s->turn == 0 || !dlk_net_place_is(&place, before);
  if (s->lost)
    dlk_net_event(s->host, s->conf, "sentinel",
                  "its Sentinels name a primary again");
  if (moved && s->turn > 0)
    dlk_net_event(
        s->host, s->conf, "failover", "the primary is %s now, it was %s",
        dlk_net_place_text(&place).text, dlk_net_place_text(before).text);
  int64_t replicas = s->primary.replicas;
  bool differs = moved || a->replicas != replicas || a->others != s->others;
  if (differs && replicas >= 0 && a->replicas >= 0)
    dlk_net_event(s->host, s->conf, "topology",
                  "%s is the primary, with %lld replica%s and %lld Sentinel%s",
                  named.text, (long long)a->replicas,
                  a->replicas == 1 ? "" : "s", (long long)a->others + 1,
                  a->others == 0 ? "" : "s");
  if (a->replicas >= 0) {
    s->primary.replicas = a->replicas;
    s->others = a->others;
  }
  s->lost = false;
  s->epoch = a->epoch;
  s->turn += moved;
  s->places[s->turn % 2] = place;
  current(s)->port = place.port;
  tell(s, NULL);
}

/* Returns `why` without the name that the sentence has already. */
static const char *reason(const struct witness *w) {
  struct dlk_net_server_text name = dlk_net_conn_name(&w->conn.net);
  const char *at = strstr(w->why.text, name.text);
  const char *behind = at ? at + strlen(name.text) : "";
  return strncmp(behind, ": ", 2) == 0 ? behind + 2 : w->why.text;
}

/* Says the most helpful reason why no primary is agreed on. */
static void lose(struct sentinel *s, const struct agreement *a) {
  const char *url = s->conf->shown;
  const struct witness *most = s->witnesses;
  struct dlk_error why;
  for (const struct witness *w = most; w < s->news; w++)
    most = w->said > most->said || w->said == REFUSAL ? w : most;
  if (a->stale)
    dlk_error_set(&why, DLK_UNAVAILABLE,
                  "%s: the Sentinels that answer are behind what others said "
                  "before; are some cut off?",
                  url);
  else if (a->a)
    dlk_error_set(&why, DLK_UNAVAILABLE,
                  "%s: its Sentinels do not agree: one names %s, another one "
                  "%s",
                  url, dlk_net_place_text(a->a).text,
                  dlk_net_place_text(a->b).text);
  else if (most->said == REFUSAL)
    why = most->why;
  else if (most->said == UNKNOWN)
    dlk_error_set(&why, DLK_INVALID,
                  "%s: these Sentinels do not know a primary of the name "
                  "'%.64s'; check it (SENTINEL MASTERS)",
                  url, s->master);
  else
    dlk_error_set(&why, DLK_UNAVAILABLE, "%s: no Sentinel answers (%.200s)",
                  url, reason(most));
  if (!s->lost && (a->stale || a->a))
    s->host->event(s->host, "sentinel", why.text);
  else if (!s->lost)
    dlk_net_event(s->host, s->conf, "sentinel",
                  "none of its Sentinels names a primary");
  s->lost = true;
  tell(s, &why);
}

/* Ends the round, or judges a late answer. */
static void judge(struct sentinel *s) {
  struct agreement agreed = agree(s);
  bool late = !is_asking(s);
  int64_t half = s->conf->connect_timeout / 2;
  int64_t until =
      dlk_time_add(s->asked_at, half < WAIT_FOR_MOST ? half : WAIT_FOR_MOST);
  bool over = s->open == 0 || (agreed.place && agreed.most);
  for (const struct witness *w = s->witnesses; w < s->news; w++)
    over = over || (w->said != NOTHING && now(s) >= until);
  if (!late && !over) {
    if (now(s) < until)
      s->host->timer_set(s->host, &s->timer, until);
    return;
  }
  if (!late) {
    enter(s, s->state == AGAIN ? DUE : RESTING);
    set_next(s);
    s->agreed_at = agreed.place ? now(s) : s->agreed_at;
  }
  if (agreed.place)
    follow(s, &agreed);
  else if (!late)
    lose(s, &agreed);
}

/* ---- a round ---- */

static void ask(struct sentinel *s) {
  if (s->state >= ASKING)
    return;
  enter(s, ASKING);
  s->asked_at = now(s);
  s->host->timer_set(s->host, &s->timer,
                     dlk_time_add(s->asked_at, WAIT_FOR_ALL));
  for (struct witness *w = s->witnesses; w < s->news; w++) {
    if (!dlk_list_empty(&w->ask.entry))
      continue;
    s->open++;
    w->said = NOTHING;
    dlk_redis_pipe_submit(&w->conn.pipe, &w->ask);
  }
  /* A flush may fail at once; if all do, the last one ends the round. */
  for (struct witness *w = s->witnesses; w < s->news; w++)
    dlk_redis_conn_flush(&w->conn);
}

static void on_timer(struct dlk_timer *timer, int64_t at) {
  struct sentinel *s = DLK_CONTAINER(timer, struct sentinel, timer);
  bool due = s->state == DUE;
  (void)at;
  for (struct dlk_list *l = s->seekers.next; l != &s->seekers; l = l->next)
    due = due || !DLK_CONTAINER(l, struct dlk_net_seeker, entry)->settled;
  if (is_asking(s))
    judge(s);
  else if (due)
    ask(s);
}

/* The timer begins the round: the caller may be in the middle of something. */
static void doubt(struct dlk_net_endpoint *e) {
  struct sentinel *s = of(e);
  if (s->state == ASKING)
    enter(s, AGAIN);
  if (s->state != RESTING)
    return;
  enter(s, DUE);
  set_next(s);
}

/* ---- a connection ---- */

static struct dlk_redis_req *handshake(struct dlk_redis_conn *c) {
  return &DLK_CONTAINER(c, struct witness, conn)->hello;
}

static void encode_hello(struct dlk_redis_req *r, struct dlk_buf *out) {
  struct witness *w = DLK_CONTAINER(r, struct witness, hello);
  struct sentinel *s = w->conn.arg;
  r->secret = dlk_redis_auth_put(&s->auth, out);
  r->replies = r->secret ? 2 : 1;
  if (w == s->news)
    dlk_redis_put_words(out, "SUBSCRIBE", "+switch-master", NULL);
  else
    dlk_redis_put_words(out, "PING", NULL);
}

/* Says in *err what a Sentinel's refusal means. */
static void explain(const struct witness *w, const struct dlk_redis_req *r,
                    const char *text, struct dlk_error *err) {
  struct dlk_net_server_text name = dlk_net_conn_name(&w->conn.net);
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

static void hello_done(struct dlk_redis_req *r,
                       const struct dlk_redis_answer *a) {
  struct witness *w = DLK_CONTAINER(r, struct witness, hello);
  struct sentinel *s = w->conn.arg;
  struct dlk_error why;
  if (a->outcome != DLK_REDIS_ANSWERED)
    return;
  if (a->refusal) {
    explain(w, r, a->refusal, &why);
    dlk_net_conn_refuse(&w->conn.net, &why);
    return;
  }
  dlk_net_conn_ready(&w->conn.net);
  if (w != s->news) {
    dlk_redis_conn_flush(&w->conn);
    return;
  }
  s->news_refused = false;
  dlk_net_wake_set(s->wake, DLK_NET_WAKE_NEWS,
                   dlk_net_sock_fd(w->conn.net.sock));
  doubt(&s->primary.endpoint); /* a switch before was not heard */
}

static void gone(void *arg) {
  const struct dlk_redis_conn *c = arg;
  const struct sentinel *s = c->arg;
  s->gone(s->gone_arg);
}

/* ---- a question: for the epoch and the address in one write ---- */

static void encode_ask(struct dlk_redis_req *r, struct dlk_buf *out) {
  const struct witness *w = DLK_CONTAINER(r, struct witness, ask);
  const struct sentinel *s = w->conn.arg;
  r->replies = 2;
  dlk_redis_put_words(out, "SENTINEL", "MASTER", s->master, NULL);
  dlk_redis_put_words(out, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s->master,
                      NULL);
}

/* Returns a field of SENTINEL MASTER, at most `max`; -1: there is none. */
static int64_t field(const redisReply *reply, const char *name, int64_t max) {
  for (size_t i = 0; i + 1 < reply->elements; i += 2) {
    const redisReply *key = reply->element[i], *value = reply->element[i + 1];
    if (key->type != REDIS_REPLY_STRING || value->type != REDIS_REPLY_STRING ||
        strcmp(key->str, name) != 0)
      continue;
    int64_t n = strtoll(value->str, NULL, 10);
    return n < 0 || n > max ? -1 : n;
  }
  return -1;
}

/* True: visible characters only. People see it and the resolver gets it. */
static bool is_word(const redisReply *reply) {
  bool word = reply->type == REDIS_REPLY_STRING && reply->len > 0;
  for (size_t i = 0; word && i < reply->len; i++)
    word = reply->str[i] > ' ' && reply->str[i] <= '~';
  return word;
}

/* Reads [host, port]. False: it is odd. */
static bool read_place(const redisReply *reply, struct dlk_net_place *to) {
  const redisReply *host = dlk_redis_at(reply, 0);
  const redisReply *port = dlk_redis_at(reply, 1);
  char text[sizeof to->host + 16];
  if (reply->elements != 2 || !is_word(host) || !is_word(port))
    return false;
  int n = snprintf(text, sizeof text, "[%s]:%s", host->str, port->str);
  return n < (int)sizeof text && dlk_net_place_read(to, text);
}

static void each(struct dlk_redis_req *r, unsigned index,
                 const redisReply *reply) {
  struct witness *w = DLK_CONTAINER(r, struct witness, ask);
  if (index == 0) {
    w->epoch = field(reply, "config-epoch", INT64_MAX);
    w->replicas = field(reply, "num-slaves", SERVERS_MAX);
    w->others = field(reply, "num-other-sentinels", SERVERS_MAX);
  } else if (reply->type == REDIS_REPLY_NIL) {
    w->said = UNKNOWN;
  } else if (reply->type == REDIS_REPLY_ERROR) {
    w->said = REFUSAL;
    explain(w, r, reply->str, &w->why);
  } else if (read_place(reply, &w->place)) {
    w->said = ADDRESS;
  } else {
    w->said = REFUSAL;
    dlk_error_set(&w->why, DLK_UNAVAILABLE, "%s answers what is no address",
                  dlk_net_conn_name(&w->conn.net).text);
  }
}

static void report(struct witness *w) {
  const struct sentinel *s = w->conn.arg;
  struct dlk_net_server_text name = dlk_net_conn_name(&w->conn.net);
  bool is_bad = w->said != ADDRESS;
  char text[900];
  if (is_bad == w->bad)
    return;
  w->bad = is_bad;
  if (!is_bad)
    snprintf(text, sizeof text, "%s answers again", name.text);
  else if (w->said == UNKNOWN)
    snprintf(text, sizeof text,
             "%s does not know a primary of the name '%.64s'", name.text,
             s->master);
  else if (w->said == REFUSAL)
    snprintf(text, sizeof text, "%s", w->why.text);
  else
    snprintf(text, sizeof text, "%s does not answer (%.200s)", name.text,
             reason(w));
  s->host->event(s->host, "sentinel", text);
}

static void answered(struct dlk_redis_req *r,
                     const struct dlk_redis_answer *a) {
  struct witness *w = DLK_CONTAINER(r, struct witness, ask);
  struct sentinel *s = w->conn.arg;
  s->open--;
  if (a->outcome != DLK_REDIS_ANSWERED) {
    bool no = a->err->code == DLK_DENIED || a->err->code == DLK_INVALID;
    w->said = no ? REFUSAL : NOTHING;
    w->place.port = 0; /* for I4 */
    w->why = *a->err;
  }
  if (s->state == STOPPED)
    return;
  report(w);
  if (!is_asking(s) || s->open == 0 || now(s) - s->asked_at >= WAIT_FOR_ALL)
    judge(s);
}

static const struct dlk_redis_conn_events witness_events = {
    .handshake = handshake, .gone = gone};

/* The next attempt goes to the next Sentinel. */
static void leave_news(struct sentinel *s) {
  s->news_from = (s->news_from + 1) % s->count;
  s->news->conn.net.endpoint = &s->witnesses[s->news_from].at.endpoint;
  dlk_net_wake_set(s->wake, DLK_NET_WAKE_NEWS, -1);
}

static void news_broken(struct dlk_redis_conn *c, bool asked,
                        const struct dlk_error *why) {
  (void)asked, (void)why;
  leave_news(c->arg);
}

/* Without the subscription a failover is noticed late, so an event says so. */
static void news_failed(struct dlk_redis_conn *c, const struct dlk_error *why) {
  struct sentinel *s = c->arg;
  leave_news(s);
  if (why->code != DLK_DENIED || s->news_refused)
    return;
  s->news_refused = true;
  s->host->event(s->host, "sentinel", why->text);
}

/* ["message", "+switch-master", "name old-host old-port host port"] */
static void push(struct dlk_redis_conn *c, const redisReply *reply) {
  struct sentinel *s = c->arg;
  const redisReply *text = dlk_redis_at(reply, 2);
  size_t len = strlen(s->master);
  if (text->type == REDIS_REPLY_STRING &&
      strncmp(text->str, s->master, len) == 0 && text->str[len] == ' ')
    doubt(&s->primary.endpoint);
}

static const struct dlk_redis_conn_events news_events = {.handshake = handshake,
                                                         .broken = news_broken,
                                                         .failed = news_failed,
                                                         .push = push,
                                                         .gone = gone};

/* ---- the endpoint ---- */

static void locate(struct dlk_net_endpoint *e, struct dlk_net_seeker *who) {
  struct sentinel *s = of(e);
  bool fresh = s->agreed_at && now(s) - s->agreed_at < FRESH;
  dlk_list_remove(&who->entry);
  dlk_list_append(&s->seekers, &who->entry);
  if (!fresh) {
    ask(s);
    return;
  }
  who->located(who, current(s), NULL);
  set_next(s);
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
  for (size_t i = 0; i <= s->count; i++)
    s->witnesses[i].conn.net.alive = alive;
}

static void flush(struct dlk_net_endpoint *e, bool listening) {
  struct sentinel *s = of(e);
  struct dlk_net_conn *n = &s->news->conn.net;
  if (s->state == STOPPED)
    return;
  if (n->wanted && !listening) {
    dlk_net_wake_set(s->wake, DLK_NET_WAKE_NEWS, -1);
    dlk_net_conn_off(n);
  }
  n->wanted = listening;
  dlk_net_conn_wake(n);
  for (size_t i = 0; s->open > 0 && i < s->count; i++)
    dlk_redis_conn_flush(&s->witnesses[i].conn);
}

static void stop(struct dlk_net_endpoint *e) {
  struct sentinel *s = of(e);
  enter(s, STOPPED);
  s->host->timer_clear(s->host, &s->timer);
  dlk_net_wake_set(s->wake, DLK_NET_WAKE_NEWS, -1);
  for (size_t i = 0; i <= s->count; i++)
    dlk_net_conn_stop(&s->witnesses[i].conn.net);
}

static void destroy(struct dlk_net_endpoint *e) {
  struct sentinel *s = of(e);
  for (size_t i = 0; i <= s->count; i++)
    dlk_net_conn_free(&s->witnesses[i].conn.net);
  dlk_secret_free(s->auth.secret);
  free(s);
}

static void init_witness(struct sentinel *s, size_t i,
                         struct dlk_net_tls *tls) {
  struct witness *w = &s->witnesses[i];
  bool votes = i < s->count;
  if (votes)
    dlk_net_fixed_init(&w->at, s->conf, i, PORT, tls);
  w->at.endpoint.role = ROLE;
  dlk_redis_conn_init(&w->conn, s->host, s->conf,
                      &s->witnesses[votes ? i : 0].at.endpoint,
                      votes ? &witness_events : &news_events, s);
  w->conn.net.pause = PAUSE;
  if (votes) /* its reason comes before a seeker's time is over */
    w->conn.net.connect_timeout = s->conf->connect_timeout / 4 * 3;
  w->hello.encode = encode_hello;
  w->hello.done = hello_done;
  w->ask.encode = encode_ask;
  w->ask.each = each;
  w->ask.done = answered;
  dlk_list_init(&w->ask.entry);
}

struct dlk_net_endpoint *dlk_redis_sentinel_new(struct dlk_host *host,
                                                const struct dlk_conf *conf,
                                                struct dlk_net_tls *tls) {
  const struct dlk_options *o = &conf->options;
  size_t count = conf->host_count, len = strcspn(conf->path + 1, "/");
  struct sentinel *s = calloc(1, sizeof *s + (count + 1) * sizeof *s->news);
  struct dlk_secret *secret =
      dlk_secret_new(dlk_option_text(o, "sentinel_password"),
                     dlk_option_text(o, "sentinel_password_file"), false);
  if (!s || !secret) {
    dlk_secret_free(secret);
    free(s);
    return NULL;
  }
  s->primary.endpoint = (struct dlk_net_endpoint){.locate = locate,
                                                  .forget = forget,
                                                  .changes = true,
                                                  .role = "the primary",
                                                  .doubt = doubt,
                                                  .start = start,
                                                  .flush = flush,
                                                  .stop = stop,
                                                  .destroy = destroy};
  s->host = host;
  s->conf = conf;
  s->auth.username = dlk_option_text(o, "sentinel_username");
  s->auth.secret = secret;
  snprintf(s->master, sizeof s->master, "%.*s", (int)len, conf->path + 1);
  s->epoch = s->primary.replicas = s->others = -1;
  for (int i = 0; i < 2; i++)
    s->addresses[i] =
        (struct dlk_net_address){.host = s->places[i].host, .tls = tls};
  s->timer.fire = on_timer;
  dlk_list_init(&s->seekers);
  s->count = count;
  s->news = &s->witnesses[count];
  for (size_t i = 0; i <= count; i++)
    init_witness(s, i, tls);
  return &s->primary.endpoint;
}
