/* The two workers, whom notices concern, and tokens that are in nobody's hands.
 *
 * An orphan is a token that is left in the background: at once, once more after
 * two seconds if its old request may still be done, and else until the server
 * answers, or has forgotten the token by itself. While another transaction has
 * its row, that gets rarer: each attempt holds up the connection for a second.
 */
#include <stdio.h>
#include <stdlib.h>

#include "store/sql/recipe/recipe.h"

#define AGAIN DLK_SEC /* doubles up to LONGEST while a row is locked */
#define LONGEST (8 * DLK_SEC)
#define LATE (2 * DLK_SEC)
#define PLACE (15 * DLK_SEC) /* a place that nobody asks for is dead then */

static const struct dlk_sql_events events;

/* ---- workers ---- */

struct dlk_sql_worker *dlk_sql_worker_of(struct dlk_sql_store *s, int which) {
  struct dlk_sql_place place = s->places[which], own;
  if (s->workers[which] || s->stopping)
    return s->workers[which];
  if (which == DLK_SQL_B && !s->deaf)
    place.listen = s->channel;
  if (dlk_sql_place_copy(&own, &place))
    s->workers[which] =
        dlk_sql_worker_start(s->host, s->dialect, &own, &events, s);
  return s->workers[which];
}

void dlk_sql_listen(struct dlk_sql_store *s, bool *counted, bool wants) {
  if (*counted == wants)
    return;
  *counted = wants;
  s->listeners += wants ? 1 : (size_t)-1;
  bool changed = s->listeners == (wants ? 1 : 0);
  if (s->stopping || s->deaf || !changed)
    return;
  struct dlk_sql_worker *w =
      wants ? dlk_sql_worker_of(s, DLK_SQL_B) : s->workers[DLK_SQL_B];
  if (w)
    dlk_sql_worker_keep(w, wants);
}

/* ---- parameters, tokens ---- */

void dlk_sql_put_key(struct dlk_sql_call *call, struct dlk_sql_store *s,
                     const char *key, size_t len) {
  struct dlk_buf id = {0};
  dlk_buf_add(&id, s->prefix, strlen(s->prefix));
  dlk_buf_add(&id, key, len);
  dlk_sql_put_bytes(call, id.data, id.len);
  call->failed = call->failed || id.failed;
  dlk_buf_free(&id);
}

void dlk_sql_put_span(struct dlk_sql_call *call, int64_t ns) {
  dlk_sql_put_number(call, ns <= 0 ? 0 : ns / DLK_US + 1);
}

void dlk_sql_token_drop(struct dlk_sql_hold *h) {
  if (h->known)
    dlk_map_remove(&h->store->tokens, &h->node);
  h->known = false;
  if (h->heeds)
    dlk_list_remove(&h->heed);
  h->heeds = false;
  if (h->store)
    dlk_sql_listen(h->store, &h->listens, false);
}

void dlk_sql_token_draw(struct dlk_sql_hold *h) {
  struct dlk_sql_store *s = h->store;
  dlk_sql_token_drop(h);
  s->host->random(s->host, h->token, DLK_SQL_TOKEN - DLK_SQL_CLIENT);
  memcpy(h->token + DLK_SQL_TOKEN - DLK_SQL_CLIENT, s->client, DLK_SQL_CLIENT);
  h->known =
      dlk_map_put(&s->tokens, &h->node, (const char *)h->token, DLK_SQL_TOKEN);
}

int64_t dlk_sql_min_left(struct dlk_sql_hold *h) {
  int64_t min = h->lease->min_hold;
  return min <= 0 ? 0 : h->granted + min - dlk_sql_now(h->store);
}

int64_t dlk_sql_span(struct dlk_sql_hold *h, int64_t ttl) {
  int64_t least = dlk_sql_min_left(h);
  return ttl > least ? ttl : least;
}

/* ---- notices ---- */

static void hint(struct dlk_sql_try *t) {
  if (t->step && t->step->hint)
    t->step->hint(t);
}

static int digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                : -1;
}

/* "g", "b" or "r", a blank, the token's digits. */
static void heard(void *user, const char *text) {
  struct dlk_sql_store *s = user;
  char token[DLK_SQL_TOKEN];
  if (strlen(text) != 2 + 2 * sizeof token || text[1] != ' ' || s->stopping)
    return;
  for (size_t i = 0; i < sizeof token; i++) {
    int high = digit(text[2 + 2 * i]), low = digit(text[3 + 2 * i]);
    if (high < 0 || low < 0)
      return;
    token[i] = (char)(high << 4 | low);
  }
  struct dlk_map_node *n = dlk_map_get(&s->tokens, token, sizeof token);
  if (!n)
    return;
  struct dlk_sql_hold *h = DLK_CONTAINER(n, struct dlk_sql_hold, node);
  DLK_TRACE(dlk_sql_now(s), s->dialect->name, "message", h->lease->key,
            h->lease->key_len, "%s",
            text[0] == 'g'   ? "granted"
            : text[0] == 'b' ? "broken"
                             : "asked for");
  if (text[0] == 'g' && h->waiting) {
    hint(h->waiting);
  } else if (text[0] == 'r' && !h->waiting) {
    s->host->revoked(s->host, h->lease);
  } else if (text[0] == 'b' && !h->waiting) {
    h->broken = true;
    if (h->renewing) /* its answer is the loss */
      return;
    dlk_sql_token_drop(h);
    s->host->lost(s->host, h->lease, "it was broken by an administrator");
  }
}

/* What was told before is found by asking. */
static void listening(void *user, int hears) {
  struct dlk_sql_store *s = user;
  s->hears = hears;
  struct dlk_list rest;
  dlk_list_take(&s->tries, &rest);
  while (!dlk_list_empty(&rest)) {
    struct dlk_list *l = rest.next;
    struct dlk_sql_try *t = DLK_CONTAINER(l, struct dlk_sql_try, entry);
    dlk_list_remove(l);
    dlk_list_append(&s->tries, l);
    if (!s->stopping)
      hint(t);
  }
}

static void gone(void *user, struct dlk_sql_worker *w) {
  struct dlk_sql_store *s = user;
  for (int i = 0; i < 2; i++)
    if (s->workers[i] == w)
      s->workers[i] = NULL;
  if (s->stopping && !s->workers[0] && !s->workers[1]) {
    s->host->timer_clear(s->host, &s->stop);
    s->host->stopped(s->host);
  }
}

static const struct dlk_sql_events events = {
    .heard = heard, .listening = listening, .gone = gone};

/* ---- orphans ---- */

struct orphan {
  struct dlk_list link;
  struct dlk_sql_store *store;
  struct dlk_sql_call *call;
  struct dlk_timer timer;
  bool gives_back, twice;
  unsigned char token[DLK_SQL_TOKEN], back[DLK_SQL_TOKEN];
  int64_t until, pause;
  size_t key_len;
  char key[];
};

static void free_orphan(struct orphan *o) {
  o->store->host->timer_clear(o->store->host, &o->timer);
  if (o->call)
    o->call->who = NULL;
  dlk_list_remove(&o->link);
  o->store->host->busy(o->store->host, -1);
  free(o);
}

static void orphan_answered(struct dlk_sql_call *call) {
  struct orphan *o = call->who;
  if (o) {
    struct dlk_host *host = o->store->host;
    int64_t now = host->now(host);
    bool good = call->verdict == DLK_SQL_GOOD;
    bool locked = call->verdict == DLK_SQL_NOT_DONE && call->begun;
    o->call = NULL;
    o->pause = locked && o->pause < LONGEST ? 2 * o->pause : o->pause;
    if (now >= o->until || (good && (o->twice || !call->loose)))
      free_orphan(o);
    else
      host->timer_set(host, &o->timer, now + (good ? LATE : o->pause));
  }
  dlk_sql_call_free(call);
}

static void take_back(struct orphan *o) {
  struct dlk_sql_store *s = o->store;
  struct dlk_sql_worker *w = dlk_sql_worker_of(s, DLK_SQL_A);
  struct dlk_sql_call *call =
      w ? dlk_sql_call_new(o->gives_back ? DLK_SQL_ATTACH : DLK_SQL_LEAVE,
                           orphan_answered, o)
        : NULL;
  if (!call) {
    s->host->timer_set(s->host, &o->timer, dlk_sql_now(s) + AGAIN);
    return;
  }
  dlk_sql_put_key(call, s, o->key, o->key_len);
  dlk_sql_put_bytes(call, o->token, DLK_SQL_TOKEN);
  if (o->gives_back)
    dlk_sql_put_bytes(call, o->back, DLK_SQL_TOKEN);
  dlk_sql_put_number(call, 0);
  if (o->gives_back)
    dlk_sql_put_null(call);
  if (call->failed) {
    dlk_sql_call_free(call);
    s->host->timer_set(s->host, &o->timer, dlk_sql_now(s) + AGAIN);
    return;
  }
  call->deadline = dlk_time_add(dlk_sql_now(s), s->conf.io_timeout);
  call->crossed = DLK_SQL_ATTEMPTS - 1;
  o->call = call;
  dlk_sql_worker_put(w, call);
}

static void orphan_timer(struct dlk_timer *timer, int64_t now) {
  struct orphan *o = DLK_CONTAINER(timer, struct orphan, timer);
  (void)now;
  o->twice = true;
  take_back(o);
}

/* Without memory it ends by its ttl. */
void dlk_sql_orphan(struct dlk_sql_store *s, const struct dlk_lease *lease,
                    const unsigned char *token, const unsigned char *back) {
  struct orphan *o = calloc(1, sizeof *o + lease->key_len);
  int64_t most = lease->ttl > lease->min_hold ? lease->ttl : lease->min_hold;
  if (!o)
    return;
  o->store = s;
  o->pause = AGAIN;
  o->timer.fire = orphan_timer;
  o->until = dlk_time_add(dlk_sql_now(s), most > PLACE ? most : PLACE);
  o->gives_back = back != NULL;
  memcpy(o->token, token, DLK_SQL_TOKEN);
  if (back)
    memcpy(o->back, back, DLK_SQL_TOKEN);
  o->key_len = lease->key_len;
  memcpy(o->key, lease->key, lease->key_len);
  dlk_list_append(&s->orphans, &o->link);
  s->host->busy(s->host, 1);
  take_back(o);
}

/* Those under way are run before the worker ends. */
void dlk_sql_orphans_end(struct dlk_sql_store *s) {
  while (!dlk_list_empty(&s->orphans))
    free_orphan(DLK_CONTAINER(s->orphans.next, struct orphan, link));
}
