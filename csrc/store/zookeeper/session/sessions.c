/* Sessions: when one is opened, trusted, replaced and closed.
 *
 * A store has one current session, and for a while others that are on their
 * way out. A contender belongs to one session for the life of its node, so
 * an answer, an event or a horizon of one session never touches another's.
 *
 * A new contender needs a session whose horizon will carry its hold: the
 * confirm chain (confirm.c) takes half a timeout to reach a new write, and
 * runs only while something is held or waited for. So after a pause, when
 * nothing of ours is live in it, the session is replaced: a fresh one counts
 * from its own connect. The old one is closed when its last background
 * delete is through; looks (a watch of an election) move to the next one, so
 * no more than two sessions are open but for such deletes. Too many watched
 * paths (the library restores them in one packet) also retire a session.
 *
 * Reconnecting is the library's affair; a session that stays away for two
 * timeouts is given up: the servers will end it, and waiters join anew. So is
 * one that comes back with a shorter timeout: what was promised for the longer
 * one does not hold any more. (Only a server whose limits differ from the
 * others' does that, and if its answer is lost nobody here can know: confirm.c
 * has the conditions.) */
#include "store/zookeeper/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WATCH_BYTES_MAX ((size_t)512 * 1000)
#define BACKOFF_MIN (100 * DLK_MS)
#define BACKOFF_MAX (2 * DLK_SEC)

/* ---- open ---- */

/* A link that is being closed; allocated with its session, so that closing
 * cannot fail. */
struct dlk_zk_closing {
  struct dlk_list link;
  struct dlk_zk_link *connection;
};

static const struct dlk_zk_events events;
static void link_late(struct dlk_timer *timer, int64_t now);
static void tidy_fired(struct dlk_timer *timer, int64_t now);

static struct dlk_zk_session *session_new(struct dlk_zk_store *st) {
  struct dlk_zk_session *s = calloc(1, sizeof *s);
  if (!s)
    return NULL;
  uint32_t seed;
  st->host->random(st->host, &seed, sizeof seed);
  s->store = st;
  s->opened = dlk_zk_now(st);
  s->timeout = st->conf.session_timeout;
  dlk_list_init(&s->link);
  dlk_list_init(&s->nodes);
  dlk_list_init(&s->asks);
  dlk_list_init(&s->zombies);
  dlk_list_init(&s->fresh);
  dlk_list_init(&s->looks);
  dlk_map_init(&s->watches, seed);
  s->timer.fire = link_late;
  s->tidy_timer.fire = tidy_fired;
  s->confirm_timer.fire = dlk_zk_confirm_fired;
  s->horizon_timer.fire = dlk_zk_horizon_fired;
  s->fresh_timer.fire = dlk_zk_fresh_fired;
  struct dlk_zk_conf conf = {st->hosts, st->auth, s->timeout};
  s->closing = calloc(1, sizeof *s->closing);
  if (s->closing)
    s->connection = st->driver->open(st->host, &conf, &events, s, st);
  if (!s->connection) {
    free(s->closing);
    free(s);
    return NULL;
  }
  st->links++;
  dlk_list_append(&st->sessions, &s->link);
  st->host->timer_set(st->host, &s->timer,
                      s->opened + st->conf.connect_timeout);
  return s;
}

struct dlk_zk_session *dlk_zk_session_any(struct dlk_zk_store *st) {
  if (!st->current)
    st->current = session_new(st);
  return st->current;
}

static bool usable(struct dlk_zk_session *s) {
  if (s->state == DLK_ZK_OPENING || s->state == DLK_ZK_BROKEN)
    return true;
  if (s->watch_bytes > WATCH_BYTES_MAX)
    return false;
  if (s->live > 0)
    return true;
  return s->state == DLK_ZK_CONNECTED &&
         dlk_zk_confirm_sustains(&s->confirm, dlk_zk_now(s->store));
}

struct dlk_zk_session *dlk_zk_session_pick(struct dlk_zk_store *st) {
  if (st->current && !usable(st->current))
    dlk_zk_session_retire(st->current);
  return dlk_zk_session_any(st);
}

/* ---- end ---- */

void dlk_zk_session_retire(struct dlk_zk_session *s) {
  s->retired = true;
  if (s->store->current == s)
    s->store->current = NULL;
  dlk_zk_asks_move(s);
  dlk_zk_session_tidy(s);
}

void dlk_zk_session_tidy(struct dlk_zk_session *s) {
  struct dlk_host *host = s->store->host;
  if (s->retired && s->node_count == 0 && dlk_list_empty(&s->asks))
    host->timer_set(host, &s->tidy_timer, 0);
}

static void tidy_fired(struct dlk_timer *timer, int64_t now) {
  struct dlk_zk_session *s =
      DLK_CONTAINER(timer, struct dlk_zk_session, tidy_timer);
  (void)now;
  if (s->retired && s->node_count == 0 && dlk_list_empty(&s->asks))
    dlk_zk_session_end(s, DLK_OK);
}

static void disconnect(struct dlk_zk_session *s) {
  if (!s->connection)
    return;
  s->closing->connection = s->connection;
  dlk_list_append(&s->store->closing, &s->closing->link);
  s->store->driver->close(s->connection);
  s->connection = NULL;
  s->closing = NULL;
}

static void tell_stopped(struct dlk_zk_store *st) {
  if (!st->stopping || st->links > 0)
    return;
  st->host->timer_clear(st->host, &st->stop_timer);
  st->host->stopped(st->host);
}

static void on_gone(void *owner, struct dlk_zk_link *link) {
  struct dlk_zk_store *st = owner;
  for (struct dlk_list *l = st->closing.next; l != &st->closing; l = l->next) {
    struct dlk_zk_closing *c = DLK_CONTAINER(l, struct dlk_zk_closing, link);
    if (c->connection != link)
      continue;
    dlk_list_remove(l);
    free(c);
    break;
  }
  st->links--;
  tell_stopped(st);
}

static void clear_timers(struct dlk_zk_session *s) {
  struct dlk_host *host = s->store->host;
  host->timer_clear(host, &s->timer);
  host->timer_clear(host, &s->tidy_timer);
  host->timer_clear(host, &s->confirm_timer);
  host->timer_clear(host, &s->horizon_timer);
  host->timer_clear(host, &s->fresh_timer);
}

/* From the first line on no answer and no event of s can come, so the nodes
 * need not wait for any. Joining anew may open the next session. */
void dlk_zk_session_end(struct dlk_zk_session *s, enum dlk_code code) {
  struct dlk_zk_store *st = s->store;
  disconnect(s);
  if (st->current == s)
    st->current = NULL;
  clear_timers(s);
  dlk_list_remove(&s->link);
  s->retired = true;
  dlk_zk_watch_free_all(s);
  while (!dlk_list_empty(&s->nodes)) {
    struct dlk_zk_node *n =
        DLK_CONTAINER(s->nodes.next, struct dlk_zk_node, link);
    n->flying = 0;
    dlk_zk_node_orphaned(n, code);
  }
  dlk_zk_asks_orphaned(&s->asks, code);
  while (!dlk_list_empty(&s->zombies)) {
    struct dlk_list *l = s->zombies.next;
    dlk_list_remove(l);
    free(DLK_CONTAINER(l, struct dlk_zk_node, link));
  }
  clear_timers(s);
  dlk_map_clear(&s->watches);
  free(s);
  dlk_zk_publish(st);
}

/* ---- stop ---- */

/* The links that are still closing let go of the host. */
static void stop_late(struct dlk_timer *timer, int64_t now) {
  struct dlk_zk_store *st =
      DLK_CONTAINER(timer, struct dlk_zk_store, stop_timer);
  (void)now;
  while (!dlk_list_empty(&st->closing)) {
    struct dlk_list *l = st->closing.next;
    struct dlk_zk_closing *c = DLK_CONTAINER(l, struct dlk_zk_closing, link);
    dlk_list_remove(l);
    struct dlk_zk_link *connection = c->connection;
    free(c);
    st->driver->abandon(connection);
  }
}

/* A close takes one round trip if the server is there; longer than
 * DLK_STOP_WAIT it is left to its thread, which touches nothing of ours. */
void dlk_zk_stop(void *store) {
  struct dlk_zk_store *st = store;
  st->stopping = true;
  st->stop_timer.fire = stop_late;
  while (!dlk_list_empty(&st->sessions))
    dlk_zk_session_end(
        DLK_CONTAINER(st->sessions.next, struct dlk_zk_session, link),
        DLK_CLOSED);
  if (st->links > 0)
    st->host->timer_set(st->host, &st->stop_timer,
                        dlk_zk_now(st) + DLK_STOP_WAIT);
  tell_stopped(st);
}

/* ---- what the link tells ---- */

static void replace(struct dlk_zk_session *s) {
  dlk_zk_session_end(s, DLK_OK);
}

static void link_late(struct dlk_timer *timer, int64_t now) {
  struct dlk_zk_session *s = DLK_CONTAINER(timer, struct dlk_zk_session, timer);
  (void)now;
  if (s->state == DLK_ZK_OPENING)
    snprintf(s->store->problem, sizeof s->store->problem, "no server answers");
  replace(s);
}

static void resume_nodes(struct dlk_zk_session *s) {
  struct dlk_list todo;
  dlk_list_take(&s->nodes, &todo);
  while (!dlk_list_empty(&todo)) {
    struct dlk_list *l = todo.next;
    dlk_list_remove(l);
    dlk_list_append(&s->nodes, l);
    dlk_zk_node_resume(DLK_CONTAINER(l, struct dlk_zk_node, link));
  }
}

/* A connect that took most of the timeout leaves nothing to hold with. */
static bool too_slow(struct dlk_zk_session *s) {
  struct dlk_zk_store *st = s->store;
  if (dlk_zk_confirm_sustains(&s->confirm, dlk_zk_now(st))) {
    st->slow_opens = 0;
    return false;
  }
  return ++st->slow_opens <= 3;
}

static void on_connected(void *user, int64_t id, int64_t timeout) {
  struct dlk_zk_session *s = user;
  struct dlk_zk_store *st = s->store;
  bool first = s->state == DLK_ZK_OPENING;
  st->host->timer_clear(st->host, &s->timer);
  s->state = DLK_ZK_CONNECTED;
  s->id = id;
  s->timeout = timeout;
  st->problem[0] = '\0';
  st->backoff = 0;
  if (first)
    dlk_zk_confirm_start(&s->confirm, s->opened, timeout);
  else
    dlk_zk_confirm_restart(&s->confirm);
  s->confirm_not_before = 0;
  if (first ? too_slow(s) : timeout < s->confirm.timeout) {
    replace(s);
    return;
  }
  resume_nodes(s);
  dlk_zk_asks_resume(s);
  dlk_zk_session_tick(s);
  if (!dlk_list_empty(&s->fresh))
    st->host->timer_set(st->host, &s->fresh_timer, dlk_zk_now(st));
}

static void on_away(void *user) {
  struct dlk_zk_session *s = user;
  struct dlk_zk_store *st = s->store;
  if (s->state != DLK_ZK_CONNECTED)
    return;
  s->state = DLK_ZK_AWAY;
  dlk_zk_confirm_restart(&s->confirm);
  snprintf(st->problem, sizeof st->problem, "the connection was lost");
  int64_t until =
      s->node_count > s->parked ? dlk_zk_now(st) + 2 * s->timeout : 0;
  st->host->timer_set(st->host, &s->timer, until);
}

static void on_ended(void *user, enum dlk_zk_end end, const char *text) {
  struct dlk_zk_session *s = user;
  struct dlk_zk_store *st = s->store;
  snprintf(st->problem, sizeof st->problem, "%s", text);
  if (end == DLK_ZK_END_EXPIRED) {
    replace(s);
  } else if (end == DLK_ZK_END_DENIED) {
    dlk_zk_session_end(s, DLK_DENIED);
  } else {
    disconnect(s);
    s->state = DLK_ZK_BROKEN;
    st->backoff = st->backoff ? st->backoff * 2 : BACKOFF_MIN;
    if (st->backoff > BACKOFF_MAX)
      st->backoff = BACKOFF_MAX;
    st->host->timer_set(st->host, &s->timer, dlk_zk_now(st) + st->backoff);
  }
}

static void on_event(void *user, enum dlk_zk_event event, const char *path) {
  dlk_zk_watch_event(user, event, path);
}

static const struct dlk_zk_events events = {
    .connected = on_connected,
    .away = on_away,
    .ended = on_ended,
    .event = on_event,
    .gone = on_gone,
};

bool dlk_zk_send(struct dlk_zk_session *s, const struct dlk_zk_request *r,
                 dlk_zk_answer *answer, void *who, uint32_t tag) {
  return s->connection &&
         s->store->driver->send(s->connection, r, answer, who, tag);
}
