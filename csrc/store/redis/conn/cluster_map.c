/* A round: one node each PAUSE is asked, until one answers or none is left.
 * Connected nodes go first. A node in doubt is asked last: a cut-off one's map
 * is old. */
#include "store/redis/conn/cluster_map.h"

#include <hiredis/hiredis.h>
#include <string.h>

#include "store/redis/wire/codec.h"
#include "store/redis/wire/errors.h"

#define PAUSE (250 * DLK_MS) /* between two questions for the map */
#define CALM DLK_SEC         /* the same if requests only moved */
#define OLD (60 * DLK_SEC)   /* a map in use is asked for anew */

static int64_t now(const struct dlk_redis_map *m) {
  return m->nodes.host->now(m->nodes.host);
}

/* ---- when it is asked for ---- */

static void want(struct dlk_redis_map *m, int64_t at) {
  if (m->stopped || (m->ask_at && m->ask_at <= at))
    return;
  m->ask_at = at;
  m->nodes.host->timer_set(m->nodes.host, &m->timer, at);
}

void dlk_redis_map_need(struct dlk_redis_map *m) {
  want(m, m->failed_at ? dlk_time_add(m->failed_at, PAUSE) : now(m));
}

void dlk_redis_map_moved(struct dlk_redis_map *m) {
  m->soft = true;
  want(m, dlk_time_add(m->asked_at, CALM));
}

void dlk_redis_map_doubt(struct dlk_redis_map *m, struct dlk_redis_node *n) {
  m->trouble = true;
  m->doubted = n;
  want(m, dlk_time_add(m->asked_at, PAUSE));
}

void dlk_redis_map_use(struct dlk_redis_map *m) {
  if (m->nodes.known && now(m) - m->taken_at > OLD)
    dlk_redis_map_moved(m);
}

static bool lags(const struct dlk_redis_node *n) {
  return n->mapped && n->open > 0 && !dlk_redis_net_stands(n->link) &&
         !dlk_list_empty(dlk_redis_net_waiting(n->link));
}

bool dlk_redis_map_lags(struct dlk_redis_map *m,
                        const struct dlk_redis_node *n) {
  if (!lags(n))
    return false;
  want(m, dlk_time_add(now(m), PAUSE));
  return true;
}

bool dlk_redis_map_spares(const struct dlk_redis_map *m,
                          const struct dlk_redis_node *n) {
  return n->state == DLK_NODE_LIVE && !n->mapped && n->open == 0 &&
         !n->asking && m->nodes.known && !m->trouble;
}

void dlk_redis_map_retire(struct dlk_redis_map *m, struct dlk_redis_node *n) {
  n->state = DLK_NODE_RETIRING;
  m->doubted = m->doubted == n ? NULL : m->doubted;
  n->link->stop(n->link);
}

/* ---- the answer ---- */

static void clear_failed(struct dlk_redis_map *m) {
  for (size_t i = 0; i < m->nodes.count; i++)
    if (m->nodes.all[i])
      m->nodes.all[i]->failed = false;
}

static void explain(const struct dlk_redis_map *m,
                    const struct dlk_redis_node *n,
                    const struct dlk_redis_answer *a, struct dlk_error *err) {
  const char *shown = m->nodes.conf->shown;
  if (a->outcome != DLK_REDIS_ANSWERED)
    *err = *a->err;
  else if (!a->refusal)
    dlk_error_set(err, DLK_UNAVAILABLE,
                  "%s: %s names no node with slots; see CLUSTER SLOTS: where a "
                  "name is \"?\", set cluster-announce-hostname",
                  shown, dlk_net_place_text(&n->reached).text);
  else if (strstr(a->refusal, "cluster support disabled"))
    dlk_error_set(err, DLK_INVALID,
                  "%s: %s is no node of a cluster; use redis:// (or rediss://)",
                  shown, dlk_net_place_text(&n->reached).text);
  else
    dlk_redis_fault_error(err, a->refusal, shown);
}

static void asked(struct dlk_redis_req *r, const struct dlk_redis_answer *a) {
  struct dlk_redis_node *n = DLK_CONTAINER(r, struct dlk_redis_node, ask);
  struct dlk_redis_map *m = n->map;
  struct dlk_redis_news news;
  n->asking = false;
  m->asking--;
  if (m->stopped)
    return;
  if (a->reply && a->reply->type == REDIS_REPLY_ARRAY &&
      dlk_redis_nodes_map(&m->nodes, n, a->reply, &news)) {
    m->taken_at = now(m);
    m->ask_at = m->failed_at = 0;
    m->soft = m->trouble = false;
    m->doubted = NULL;
    clear_failed(m);
    m->events->taken(m->nodes.router, n, &news);
    return;
  }
  struct dlk_error why;
  explain(m, n, a, &why);
  if (m->why.code == DLK_OK || why.code != DLK_UNAVAILABLE)
    m->why = why;
  n->failed = true;
  m->ask_at = 0;
  want(m, now(m));
}

/* ---- the round ---- */

static void encode_ask(struct dlk_redis_req *r, struct dlk_buf *out) {
  r->replies = 1;
  dlk_redis_put_words(out, "CLUSTER", "SLOTS", NULL);
}

/* NULL: each was asked. */
static struct dlk_redis_node *next_asked(struct dlk_redis_map *m) {
  struct dlk_redis_node *found = NULL;
  int best = -1;
  for (size_t i = 1; i <= m->nodes.count; i++) {
    size_t at = (m->turn + i) % m->nodes.count;
    struct dlk_redis_node *n = m->nodes.all[at];
    if (!n || n->state != DLK_NODE_LIVE || n->asking || n->failed)
      continue;
    int rank = n == m->doubted ? 0 : 1 + dlk_redis_net_stands(n->link);
    if (rank > best) {
      best = rank;
      found = n;
    }
  }
  return found;
}

static void round_failed(struct dlk_redis_map *m) {
  struct dlk_error why = m->why;
  clear_failed(m);
  dlk_redis_nodes_seed(&m->nodes);
  m->why.code = DLK_OK;
  m->failed_at = now(m);
  m->ask_at = 0;
  m->events->failed(m->nodes.router, &why);
}

static void ask(struct dlk_redis_map *m) {
  struct dlk_redis_node *n = next_asked(m);
  m->ask_at = 0;
  if (n) {
    m->asked_at = now(m);
    m->turn = (size_t)n->number - 1;
    n->asking = true;
    n->map = m;
    n->ask.encode = encode_ask;
    n->ask.done = asked;
    m->asking++;
    n->link->submit(n->link, &n->ask);
    want(m, dlk_time_add(m->asked_at, PAUSE));
  } else if (m->asking > 0) {
    want(m, dlk_time_add(now(m), PAUSE));
  } else {
    round_failed(m);
  }
}

static void on_timer(struct dlk_timer *timer, int64_t at) {
  struct dlk_redis_map *m = DLK_CONTAINER(timer, struct dlk_redis_map, timer);
  bool due = m->ask_at && m->ask_at <= at;
  bool reason = !m->nodes.known || m->soft || m->trouble;
  for (size_t i = 0; due && i < m->nodes.count; i++)
    if (m->nodes.all[i] && lags(m->nodes.all[i])) {
      reason = true;
      m->doubted = m->nodes.all[i];
    }
  if (due && reason)
    ask(m);
  else if (due)
    m->ask_at = 0;
}

/* ---- life ---- */

void dlk_redis_map_start(struct dlk_redis_map *m) {
  uint16_t turn;
  m->timer.fire = on_timer;
  dlk_redis_nodes_seed(&m->nodes);
  m->nodes.host->random(m->nodes.host, &turn, sizeof turn);
  m->turn = turn;
}

void dlk_redis_map_stop(struct dlk_redis_map *m) {
  m->stopped = true;
  m->nodes.host->timer_clear(m->nodes.host, &m->timer);
}
