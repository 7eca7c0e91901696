/* When a session is opened, trusted, replaced and closed.
 *
 * I1. A contender belongs to one session for its node's life: no answer, event
 *     or horizon of another touches it.
 * I2. A new contender needs a session whose horizon will carry its hold. The
 *     chain takes half a timeout to reach a new write and pauses without
 *     members, so after a pause the session is replaced; a fresh one counts
 *     from its connect.
 * I3. A retired session closes after its last background delete. Guests move
 *     on.
 * I4. Too many bytes of paths, watched or to be watched, retire a session: a
 *     client may restore all watches in one packet.
 * I5. Holds are told before their connection is closed: only give_up() closes
 *     one.
 * I6. A session unconfirmed for two timeouts after a cut is given up.
 *     Connecting is not enough: if its first packet cuts each new connection,
 *     the handshakes would renew its locks forever.
 * I7. A session that returns with a shorter timeout is given up: promises for
 *     the longer one fail. */
#include "store/session/life/session.h"

#include <stdio.h>
#include <stdlib.h>

#define BACKOFF_MIN (100 * DLK_MS)
#define BACKOFF_MAX (2 * DLK_SEC)

/* ---- open ---- */

/* Allocated with its session, so that closing cannot fail. */
struct dlk_ss_closing {
  struct dlk_list link;
  struct dlk_ss_sessions *sessions;
  struct dlk_ss_link *connection;
};

static const struct dlk_ss_events events;
static void link_late(struct dlk_timer *timer, int64_t now);
static void tidy_fired(struct dlk_timer *timer, int64_t now);

static struct dlk_ss_session *session_new(struct dlk_ss_sessions *ss) {
  struct dlk_ss_session *s = calloc(1, sizeof *s + ss->hooks->size);
  uint32_t seed;
  if (!s)
    return NULL;
  ss->host->random(ss->host, &seed, sizeof seed);
  s->sessions = ss;
  s->data = s + 1;
  s->opened = dlk_ss_session_now(s);
  s->timeout = ss->timeout;
  dlk_list_init(&s->link);
  dlk_list_init(&s->nodes);
  dlk_list_init(&s->guests);
  dlk_list_init(&s->zombies);
  dlk_map_init(&s->watches, seed);
  s->timer.fire = link_late;
  s->tidy_timer.fire = tidy_fired;
  s->confirm_timer.fire = dlk_ss_confirm_fired;
  s->horizon_timer.fire = dlk_ss_horizon_fired;
  ss->hooks->opened(s);
  s->closing = calloc(1, sizeof *s->closing);
  if (s->closing) {
    s->closing->sessions = ss;
    dlk_list_init(&s->closing->link);
    s->connection = ss->driver->open(ss->host, ss->client, s->timeout, &events,
                                     s, s->closing);
  }
  if (!s->connection) {
    snprintf(ss->problem, sizeof ss->problem,
             "no thread or no memory to be had");
    free(s->closing);
    free(s);
    return NULL;
  }
  ss->links++;
  dlk_list_append(&ss->all, &s->link);
  ss->host->timer_set(ss->host, &s->timer,
                      s->opened + ss->conf->connect_timeout);
  return s;
}

struct dlk_ss_session *dlk_ss_session_any(struct dlk_ss_sessions *ss) {
  if (!ss->current)
    ss->current = session_new(ss);
  return ss->current;
}

static bool usable(struct dlk_ss_session *s) {
  if (s->state == DLK_SS_BROKEN)
    return true;
  size_t most = s->sessions->driver->watch_bytes;
  if (s->watch_bytes > most || s->wait_bytes > most)
    return false;
  if (s->state == DLK_SS_OPENING)
    return true;
  if (dlk_ss_session_live(s) > 0)
    return true;
  return s->state == DLK_SS_CONNECTED &&
         dlk_ss_proof_sustains(&s->proof, dlk_ss_session_now(s));
}

struct dlk_ss_session *dlk_ss_session_pick(struct dlk_ss_sessions *ss) {
  if (ss->current && !usable(ss->current))
    dlk_ss_session_retire(ss->current);
  return dlk_ss_session_any(ss);
}

/* ---- members ---- */

static bool is_empty(const struct dlk_ss_session *s) {
  return s->node_count == 0 && dlk_list_empty(&s->guests);
}

static void tidy(struct dlk_ss_session *s) {
  struct dlk_host *host = s->sessions->host;
  if (s->retired && is_empty(s))
    host->timer_set(host, &s->tidy_timer, 0);
}

/* The bytes that m may come to watch. */
static size_t awaited(const struct dlk_ss_member *m) {
  bool waits = m->use >= DLK_SS_USE_PARKED && m->use <= DLK_SS_USE_READY;
  return waits ? m->awaits : 0;
}

void dlk_ss_session_join(struct dlk_ss_session *s, struct dlk_ss_member *m) {
  m->session = s;
  s->node_count++;
  s->uses[m->use]++;
  dlk_list_append(&s->nodes, &m->link);
  dlk_ss_session_use(m, DLK_SS_USE_PARKED);
}

void dlk_ss_session_visit(struct dlk_ss_session *s, struct dlk_ss_member *m) {
  m->session = s;
  dlk_list_append(&s->guests, &m->link);
}

void dlk_ss_session_use(struct dlk_ss_member *m, enum dlk_ss_use use) {
  struct dlk_ss_session *s = m->session;
  if (s) {
    s->uses[m->use]--;
    s->uses[use]++;
    s->wait_bytes -= awaited(m);
  }
  m->use = use;
  if (s)
    s->wait_bytes += awaited(m);
}

bool dlk_ss_session_leave(struct dlk_ss_member *m) {
  struct dlk_ss_session *s = m->session;
  if (!s)
    return true;
  if (m->type->path) { /* a contender */
    s->uses[m->use]--;
    s->wait_bytes -= awaited(m);
    s->node_count--;
  }
  m->use = DLK_SS_USE_NONE;
  dlk_list_remove(&m->link);
  tidy(s);
  if (m->flying > 0) {
    dlk_list_append(&s->zombies, &m->link);
    return false;
  }
  m->session = NULL;
  return true;
}

static struct dlk_ss_member *first_of(struct dlk_list *members) {
  return DLK_CONTAINER(members->next, struct dlk_ss_member, link);
}

/* Each once, whatever members do meanwhile. */
static void tell_all(struct dlk_list *members,
                     void (*tell)(struct dlk_ss_member *m)) {
  struct dlk_list todo;
  dlk_list_take(members, &todo);
  while (!dlk_list_empty(&todo)) {
    struct dlk_ss_member *m = first_of(&todo);
    dlk_list_remove(&m->link);
    dlk_list_append(members, &m->link);
    tell(m);
  }
}

static void tell_resumed(struct dlk_ss_member *m) {
  m->type->resume(m);
}

static void tell_retired(struct dlk_ss_member *m) {
  m->type->retired(m);
}

/* ---- end ---- */

void dlk_ss_session_retire(struct dlk_ss_session *s) {
  s->retired = true;
  if (s->sessions->current == s)
    s->sessions->current = NULL;
  tell_all(&s->guests, tell_retired);
  tidy(s);
}

static void session_end(struct dlk_ss_session *s, enum dlk_code code);

static void tidy_fired(struct dlk_timer *timer, int64_t now) {
  struct dlk_ss_session *s =
      DLK_CONTAINER(timer, struct dlk_ss_session, tidy_timer);
  (void)now;
  if (s->retired && is_empty(s))
    session_end(s, DLK_OK);
}

static void tell_over(struct dlk_ss_member *m) {
  m->type->orphaned(m, DLK_OK);
}

/* Servers free its locks at the close, so holds are told first. Members send
 * nothing more in it: it is no longer current, or never had a hold.
 */
static void give_up(struct dlk_ss_session *s) {
  if (!s->connection)
    return;
  s->state = DLK_SS_BROKEN;
  dlk_ss_session_tell(s, DLK_SS_USE_HELD, tell_over);
  s->closing->connection = s->connection;
  dlk_list_append(&s->sessions->closing, &s->closing->link);
  s->sessions->driver->close(s->connection);
  s->connection = NULL;
  s->closing = NULL;
}

static void tell_stopped(struct dlk_ss_sessions *ss) {
  if (!ss->stopping || ss->links > 0)
    return;
  ss->host->timer_clear(ss->host, &ss->stop_timer);
  ss->host->stopped(ss->host);
}

static void on_gone(void *owner) {
  struct dlk_ss_closing *c = owner;
  struct dlk_ss_sessions *ss = c->sessions;
  dlk_list_remove(&c->link);
  free(c);
  ss->links--;
  tell_stopped(ss);
}

static void clear_timers(struct dlk_ss_session *s) {
  struct dlk_host *host = s->sessions->host;
  host->timer_clear(host, &s->timer);
  host->timer_clear(host, &s->tidy_timer);
  host->timer_clear(host, &s->confirm_timer);
  host->timer_clear(host, &s->horizon_timer);
  s->sessions->hooks->over(s);
}

static void tell_orphaned(struct dlk_list *members, enum dlk_code code) {
  while (!dlk_list_empty(members)) {
    struct dlk_ss_member *m = first_of(members);
    m->type->orphaned(m, code);
  }
}

/* No answer or event comes any more; members may join the next one. */
static void session_end(struct dlk_ss_session *s, enum dlk_code code) {
  struct dlk_ss_sessions *ss = s->sessions;
  if (ss->current == s)
    ss->current = NULL;
  s->retired = true;
  give_up(s);
  clear_timers(s);
  dlk_list_remove(&s->link);
  dlk_ss_watch_free_all(s);
  tell_orphaned(&s->nodes, code);
  tell_orphaned(&s->guests, code);
  while (!dlk_list_empty(&s->zombies)) {
    struct dlk_ss_member *m = first_of(&s->zombies);
    dlk_list_remove(&m->link);
    m->type->discard(m);
  }
  clear_timers(s);
  dlk_map_clear(&s->watches);
  free(s);
  dlk_ss_publish(ss);
}

/* ---- stop ---- */

/* Links still closing let go of the host. */
static void stop_late(struct dlk_timer *timer, int64_t now) {
  struct dlk_ss_sessions *ss =
      DLK_CONTAINER(timer, struct dlk_ss_sessions, stop_timer);
  (void)now;
  while (!dlk_list_empty(&ss->closing)) {
    struct dlk_list *l = ss->closing.next;
    struct dlk_ss_closing *c = DLK_CONTAINER(l, struct dlk_ss_closing, link);
    dlk_list_remove(l);
    ss->driver->abandon(c->connection);
  }
}

/* After DLK_STOP_WAIT a close is left to its thread, which touches nothing of
 * ours. */
void dlk_ss_sessions_stop(struct dlk_ss_sessions *ss) {
  ss->stopping = true;
  ss->stop_timer.fire = stop_late;
  while (!dlk_list_empty(&ss->all))
    session_end(DLK_CONTAINER(ss->all.next, struct dlk_ss_session, link),
                DLK_CLOSED);
  if (ss->links > 0)
    ss->host->timer_set(ss->host, &ss->stop_timer,
                        ss->host->now(ss->host) + DLK_STOP_WAIT);
  tell_stopped(ss);
}

/* ---- what the link tells ---- */

/* Parked members have sent nothing. */
static bool is_idle(const struct dlk_ss_session *s) {
  const struct dlk_list *l = s->guests.next;
  while (l != &s->guests &&
         !DLK_CONTAINER(l, const struct dlk_ss_member, link)->settles)
    l = l->next;
  return l == &s->guests && s->node_count == s->uses[DLK_SS_USE_PARKED];
}

/* A reconnected session with nothing to lose goes on. */
static void link_late(struct dlk_timer *timer, int64_t now) {
  struct dlk_ss_session *s = DLK_CONTAINER(timer, struct dlk_ss_session, timer);
  (void)now;
  if (s->state == DLK_SS_CONNECTED && is_idle(s))
    return;
  if (s->state == DLK_SS_OPENING)
    snprintf(s->sessions->problem, sizeof s->sessions->problem,
             "no server answers");
  session_end(s, DLK_OK);
}

/* Too little of the timeout is left to hold with. */
static bool too_slow(struct dlk_ss_session *s) {
  struct dlk_ss_sessions *ss = s->sessions;
  if (dlk_ss_proof_sustains(&s->proof, dlk_ss_session_now(s))) {
    ss->slow_opens = 0;
    return false;
  }
  return ++ss->slow_opens <= 3;
}

static void report(const struct dlk_ss_session *s, const char *kind,
                   const char *what) {
  char text[300];
  struct dlk_ss_sessions *ss = s->sessions;
  snprintf(text, sizeof text, "%.200s: %s", ss->conf->shown, what);
  ss->host->event(ss->host, kind, text);
}

static void on_connected(void *user, int64_t id, int64_t timeout) {
  struct dlk_ss_session *s = user;
  struct dlk_ss_sessions *ss = s->sessions;
  bool first = s->state == DLK_SS_OPENING;
  if (first)
    ss->host->timer_clear(ss->host, &s->timer);
  s->state = DLK_SS_CONNECTED;
  s->id = id;
  s->timeout = timeout;
  ss->problem[0] = '\0';
  ss->shut = ss->barred = ss->refused = false;
  ss->backoff = 0;
  if (first)
    dlk_ss_proof_start(&s->proof, ss->driver->rule, s->opened, timeout);
  else
    dlk_ss_proof_restart(&s->proof);
  s->confirm_not_before = 0;
  if (first ? too_slow(s) : timeout < s->proof.timeout) {
    session_end(s, DLK_OK);
    return;
  }
  report(s, "connect",
         first ? "connected, with a new session"
               : "connected again, with the same session");
  tell_all(&s->nodes, tell_resumed);
  tell_all(&s->guests, tell_resumed);
  dlk_ss_session_tick(s);
  ss->hooks->connected(s);
}

static void on_away(void *user, const char *why) {
  struct dlk_ss_session *s = user;
  struct dlk_ss_sessions *ss = s->sessions;
  snprintf(ss->problem, sizeof ss->problem, "%s", why);
  if (s->state != DLK_SS_CONNECTED)
    return;
  s->state = DLK_SS_AWAY;
  report(s, "disconnect", "the connection was lost");
  dlk_ss_proof_restart(&s->proof);
  if (is_idle(s))
    ss->host->timer_set(ss->host, &s->timer, 0);
  else if (!s->timer.node.queued)
    ss->host->timer_set(ss->host, &s->timer,
                        dlk_ss_session_now(s) + 2 * s->timeout);
}

static void on_shut(void *user) {
  struct dlk_ss_session *s = user;
  s->sessions->shut |= s->state == DLK_SS_OPENING;
}

static void on_ended(void *user, enum dlk_ss_end end, const char *text) {
  struct dlk_ss_session *s = user;
  struct dlk_ss_sessions *ss = s->sessions;
  snprintf(ss->problem, sizeof ss->problem, "%s", text);
  ss->barred = end == DLK_SS_END_BARRED;
  ss->refused = end == DLK_SS_END_REFUSED || end == DLK_SS_END_INVALID;
  if (end == DLK_SS_END_DENIED || ss->barred || ss->refused) {
    session_end(s, end == DLK_SS_END_INVALID ? DLK_INVALID : DLK_DENIED);
  } else if (end == DLK_SS_END_FAILED && s->state == DLK_SS_OPENING) {
    give_up(s);
    ss->backoff = ss->backoff ? ss->backoff * 2 : BACKOFF_MIN;
    if (ss->backoff > BACKOFF_MAX)
      ss->backoff = BACKOFF_MAX;
    ss->host->timer_set(ss->host, &s->timer,
                        dlk_ss_session_now(s) + ss->backoff);
  } else {
    report(s, "session",
           end == DLK_SS_END_EXPIRED
               ? "the session expired, and its locks are lost"
               : "the session was given up, and its locks are lost");
    session_end(s, DLK_OK);
  }
}

static const struct dlk_ss_events events = {
    .connected = on_connected,
    .away = on_away,
    .shut = on_shut,
    .ended = on_ended,
    .event = dlk_ss_watch_event,
    .gone = on_gone,
};
