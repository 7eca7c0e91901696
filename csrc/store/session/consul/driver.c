/* A session of Consul's carries all contenders. Behind a cut it goes on.
 *
 *   OPENING -> UP        session/create
 *   UP -> AWAY           a request's answer is missing, or the servers have no
 *                        leader
 *   AWAY -> UP           the next epoch is written, and dead sessions' epochs,
 *                        which then have no session, are deleted
 *   any -> CLOSED        close: session/destroy
 *   CLOSED -> GONE
 *
 * C1. No create of before a cut is done later. Behind each cut a key of the
 *     session, its epoch, is written with another value. A create is done only
 *     if that key's ModifyIndex is the one known (0: there is no such key). So
 *     what a list sent behind that write does not show never comes. An epoch
 *     that is written late bars creates of now: they were not done, and the
 *     next epoch follows. Other writes compare their own node (asks.c).
 * C2. Sessions are made without health checks, so nothing ends one early but an
 *     admin, and its agent's node that leaves the catalog. Both free its keys
 *     at once, though the holder may believe in itself for one TTL more. So the
 *     session's lock-delay is its TTL, and a contender without a session counts
 *     until Consul lets another session take its key (asks.c, A4).
 * C3. A proof is a renewal and, sent behind its answer, a consistent read of a
 *     key on the session. Servers keep a session for twice its TTL after a
 *     renewal, and after an election. So an answered proof shows that the
 *     session lives until the renewal's sending + TTL - margin,
 *     even if a leader answered that had been deposed for one TTL and did not
 *     know it. Creates and deletes renew nothing.
 * C4. `ended`, and all else that may close the link, is called from the loop.
 *     The memory stays until a post of its own. */
#include "store/session/consul/link.h"

#include <stdio.h>
#include <stdlib.h>

#define PAUSE_MIN (50 * DLK_MS)
#define PAUSE_MAX DLK_SEC
/* TLS 1.3 says behind the handshake why it refuses us, and what is written then
 * may hide that: another attempt shows it. */
#define UNSENT_MAX (400 * DLK_MS)

static struct dlk_ss_link *of(struct dlk_http_call *c) {
  return DLK_CONTAINER(c, struct dlk_ss_link, hello);
}

/* ---- the end ---- */

static void run_gone(struct dlk_post *post) {
  struct dlk_ss_link *l = DLK_CONTAINER(post, struct dlk_ss_link, post);
  void (*gone)(void *) = l->events.gone;
  void *owner = l->owner;
  dlk_buf_free(&l->body);
  dlk_map_clear(&l->folders);
  free(l);
  gone(owner);
}

static void on_gone(void *arg) {
  struct dlk_ss_link *l = arg;
  l->host->post(l->host, &l->post);
}

static void finish(struct dlk_ss_link *l) {
  if (l->state == DLK_CONSUL_GONE)
    return;
  dlk_consul_state(l, DLK_CONSUL_GONE);
  l->host->timer_clear(l->host, &l->soon);
  dlk_http_drop(&l->hello);
  dlk_http_drop(&l->probe);
  dlk_http_close(&l->http);
}

static bool hello(struct dlk_ss_link *l, const char *path,
                  void (*told)(struct dlk_http_call *c)) {
  l->hello.told = told;
  return !l->body.failed &&
         dlk_http_start(&l->http, &l->hello, path,
                        l->body.data ? l->body.data : "", l->body.len,
                        l->client->conf.io_timeout);
}

static void on_destroyed(struct dlk_http_call *c) {
  finish(of(c));
}

static void destroy(struct dlk_http_call *c) {
  char path[80];
  struct dlk_ss_link *l = of(c);
  snprintf(path, sizeof path, "/v1/session/destroy/%s", l->session);
  dlk_buf_clear(&l->body);
  if (!hello(l, path, on_destroyed))
    finish(l);
}

/* Its epoch would stay behind. */
static void close_link(struct dlk_ss_link *l) {
  struct dlk_buf key = {0};
  bool known = l->state == DLK_CONSUL_UP;
  dlk_list_remove(&l->in_client);
  dlk_ss_asks_end(&l->asks, NULL);
  dlk_consul_watches_end(l, true);
  dlk_consul_state(l, DLK_CONSUL_CLOSED);
  dlk_http_drop(&l->hello);
  dlk_http_drop(&l->probe);
  dlk_buf_clear(&l->body);
  if (!known) {
    finish(l);
  } else if (l->entries == 0) {
    destroy(&l->hello);
  } else {
    dlk_consul_epoch_key(l, &key);
    const struct dlk_consul_op ends = {.verb = "delete", .key = &key};
    dlk_consul_op(&l->body, &ends);
    dlk_buf_add(&l->body, "]", 1);
    if (!hello(l, "/v1/txn", destroy))
      finish(l);
  }
  dlk_buf_free(&key);
}

/* ---- the beginning, and behind a cut ---- */

static void is_up(struct dlk_ss_link *l) {
  l->pause = 0;
  l->asks.most = 1; /* hello's */
  dlk_consul_state(l, DLK_CONSUL_UP);
  dlk_consul_watches_renew(l);
  l->events.connected(l->user, l->id, l->seconds * DLK_SEC);
}

static void again(struct dlk_ss_link *l) {
  l->pause = l->pause ? l->pause * 2 : PAUSE_MIN;
  if (l->pause > PAUSE_MAX)
    l->pause = PAUSE_MAX;
  l->host->timer_set(l->host, &l->soon, l->host->now(l->host) + l->pause);
}

/* The answer's first line. */
static const char *words(const struct dlk_http_call *c, char out[200]) {
  const char *text = c->in.len ? c->in.data : c->text;
  size_t n = c->in.len ? c->in.len : strlen(c->text);
  const char *end = memchr(text, '\n', n);
  n = end ? (size_t)(end - text) : n;
  snprintf(out, 200, "%.*s", n < 199 ? (int)n : 199, text);
  return out;
}

/* A session that may have holds goes on until its time is over: the program may
 * have another token, an admin may give the right back. */
static void denied(struct dlk_ss_link *l, const char *text) {
  char why[300];
  dlk_consul_refused(l, text);
  if (l->session[0] == '\0') {
    dlk_consul_end(l, DLK_SS_END_DENIED, text);
    return;
  }
  snprintf(why, sizeof why, "%.200s; was the token deleted, or its policy?",
           text);
  l->events.away(l->user, why);
  again(l);
}

static void failed(struct dlk_ss_link *l, const struct dlk_http_call *c) {
  char text[200], sentence[400];
  words(c, text);
  if (c->status == 403) {
    denied(l, text);
  } else if (strstr(text, "Invalid Session TTL")) {
    snprintf(sentence, sizeof sentence,
             "%.100s: %s; give a session_timeout that the servers take, or set "
             "their session_ttl_min",
             l->client->conf.shown, text);
    dlk_consul_end(l, DLK_SS_END_INVALID, sentence);
  } else if (c->insecure) {
    snprintf(sentence, sizeof sentence, "%s: %s", l->client->conf.shown, text);
    dlk_consul_end(l, DLK_SS_END_REFUSED, sentence);
  } else if (c->error && dlk_errno_code(c->error) == DLK_DENIED) {
    dlk_consul_end(l, DLK_SS_END_BARRED, text);
  } else if (l->session[0] == '\0' && !(c->unsent && l->pause < UNSENT_MAX)) {
    dlk_consul_end(l, DLK_SS_END_FAILED, text);
  } else {
    l->events.away(l->user, text);
    again(l);
  }
}

static int64_t number_of(const char *id) {
  char digits[17] = "";
  size_t n = 0;
  for (; *id && n < 16; id++)
    if (*id != '-')
      digits[n++] = *id;
  return (int64_t)strtoull(digits, NULL, 16);
}

static void on_created(struct dlk_http_call *c) {
  struct dlk_ss_link *l = of(c);
  struct dlk_consul_answer a;
  bool ok = c->status == 200 && dlk_consul_read(&c->in, &a);
  if (ok) {
    const char *id = json_string_value(json_object_get(a.root, "ID"));
    ok = id && strlen(id) < sizeof l->session &&
         id[strspn(id, "0123456789"
                       "abcdef-")] == 0;
    if (ok)
      memcpy(l->session, id, strlen(id) + 1);
    dlk_consul_free(&a);
  }
  l->id = number_of(l->session);
  if (ok)
    is_up(l);
  else if (c->status == 200)
    dlk_consul_end(l, DLK_SS_END_FAILED, "what answers there is no Consul");
  else
    failed(l, c);
}

static void on_swept(struct dlk_http_call *c) {
  is_up(of(c));
}

/* False: no epoch of a dead session is there. */
static bool sweep(struct dlk_ss_link *l, const struct dlk_consul_answer *a) {
  size_t count = 0;
  dlk_buf_clear(&l->body);
  for (size_t i = 1; i < a->count && count < DLK_CONSUL_OPS; i++) {
    const char *name = a->at[i].key;
    const struct dlk_buf key = {.data = (char *)(uintptr_t)name,
                                .len = strlen(name)};
    const struct dlk_consul_op gone = {
        .verb = "delete-cas", .key = &key, .index = a->at[i].modified};
    if (a->at[i].session[0])
      continue;
    dlk_consul_op(&l->body, &gone);
    count++;
  }
  dlk_buf_add(&l->body, "]", 1);
  return count > 0 && hello(l, "/v1/txn", on_swept);
}

static void on_entered(struct dlk_http_call *c) {
  struct dlk_ss_link *l = of(c);
  struct dlk_consul_answer a = {.failed = -1};
  bool told = c->status == 200 || c->status == 409;
  if (!told || !dlk_consul_read(&c->in, &a)) {
    failed(l, c);
    return;
  }
  bool over = a.failed >= 0 && strstr(a.why, "invalid session");
  bool no = a.failed >= 0 && strstr(a.why, "ermission denied");
  if (a.count > 0)
    l->epoch = a.at[0].modified;
  bool ok = a.failed < 0 && a.count > 0, sweeps = ok && sweep(l, &a);
  dlk_consul_free(&a);
  if (sweeps)
    return;
  if (ok)
    is_up(l);
  else if (over)
    dlk_consul_end(l, DLK_SS_END_EXPIRED, "the session is over");
  else if (no)
    denied(l, "Permission denied");
  else
    again(l);
}

/* C2. */
static bool create(struct dlk_ss_link *l) {
  dlk_buf_addf(&l->body,
               "{\"Name\":\"dlock\",\"TTL\":\"%llds\",\"LockDelay\":\"%llds\","
               "\"Behavior\":\"release\",\"Checks\":[],\"NodeChecks\":[]}",
               (long long)l->seconds, (long long)l->seconds);
  return hello(l, "/v1/session/create", on_created);
}

/* C1. */
static bool enter(struct dlk_ss_link *l) {
  char value[16];
  struct dlk_buf key = {0}, all = {0};
  dlk_consul_epoch_key(l, &key);
  dlk_consul_prefix(&all, l->client->base);
  dlk_buf_add(&all, ",-", 2);
  snprintf(value, sizeof value, "%u", ++l->entries);
  const struct dlk_consul_op next = {.verb = "lock",
                                     .key = &key,
                                     .value = value,
                                     .len = strlen(value),
                                     .session = l->session};
  const struct dlk_consul_op look = {.verb = "get-tree", .key = &all};
  dlk_consul_op(&l->body, &next);
  dlk_consul_op(&l->body, &look);
  dlk_buf_add(&l->body, "]", 1);
  dlk_buf_free(&key);
  dlk_buf_free(&all);
  return hello(l, "/v1/txn", on_entered);
}

static void soon_fired(struct dlk_timer *timer, int64_t now) {
  struct dlk_ss_link *l = DLK_CONTAINER(timer, struct dlk_ss_link, soon);
  (void)now;
  if (l->state == DLK_CONSUL_UP) {
    dlk_consul_deliver(l);
    return;
  }
  if (l->cut) {
    const char *why = l->cut;
    l->cut = NULL;
    dlk_http_drop(&l->probe);
    dlk_consul_watches_end(l, false);
    l->events.away(l->user, why);
    dlk_ss_asks_end(&l->asks, why);
    dlk_consul_busy(l);
  }
  if (l->state > DLK_CONSUL_AWAY)
    return;
  bool fresh = l->state == DLK_CONSUL_OPENING;
  dlk_buf_clear(&l->body);
  if (dlk_consul_token(l) && (fresh ? create(l) : enter(l)))
    return;
  if (fresh)
    dlk_consul_end(l, DLK_SS_END_FAILED, "out of memory");
  else
    again(l);
}

/* ---- the driver ---- */

static struct dlk_ss_link *open_link(struct dlk_host *host, void *client,
                                     int64_t timeout,
                                     const struct dlk_ss_events *events,
                                     void *user, void *owner) {
  struct dlk_ss_link *l = calloc(1, sizeof *l);
  uint32_t seed;
  if (!l)
    return NULL;
  host->random(host, &seed, sizeof seed);
  l->client = client;
  l->host = l->http.host = host;
  l->http.conf = &l->client->conf;
  l->http.tls = strcmp(l->client->conf.scheme, "consuls") == 0;
  l->events = *events;
  l->user = user;
  l->owner = owner;
  l->seconds = (timeout + DLK_SEC - 1) / DLK_SEC;
  dlk_list_init(&l->asks.list);
  l->asks.type = &dlk_consul_asks;
  l->asks.host = host;
  l->asks.base = l->client->base;
  l->asks.texts = l->client->texts;
  dlk_list_init(&l->turns);
  dlk_map_init(&l->folders, seed);
  l->soon.fire = soon_fired;
  l->post.run = run_gone;
  if (!dlk_http_open(&l->http, on_gone, l)) {
    free(l);
    return NULL;
  }
  dlk_list_append(&l->client->links, &l->in_client);
  dlk_consul_busy(l);
  host->timer_set(host, &l->soon, 0);
  return l;
}

static const struct dlk_ss_rule proof = {.lag = 0, .writes = false}; /* C3 */

static void free_client(void *arg) {
  struct dlk_consul_client *client = arg;
  dlk_ss_free_texts(client->texts);
  free(client->base);
  free(client);
}

const struct dlk_ss_driver dlk_consul_driver = {
    .name = "Consul",
    .room = "consul",
    .denied_user = "",
    .denied_nobody = "its token (the option password) is missing or wrong, or "
                     "may not write there and make sessions",
    .watch_bytes = (size_t)16 << 20,
    .rule = &proof,
    .open = open_link,
    .send = dlk_consul_send,
    .close = close_link,
    .abandon = finish,
    .guard_error = dlk_consul_guard_error,
    .free_client = free_client,
};
