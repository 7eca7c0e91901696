/* min_hold outlives its holder: a stand-in keeps the key.
 *
 * A contender's node goes with its session. So before a grant with min_hold is
 * told, a node in no session is made beside it. Its name has the holder's kind,
 * guid and number, and its end by the servers' clock. It counts once the
 * holder's node is gone (queue.c).
 *
 * I1. It is made only if the holder's node exists (KEEP): none comes later, and
 *     deleting both begins with the holder's.
 * I2. Past its end, by a time that the servers have shown, it counts for
 *     nothing; each client that sees it deletes it.
 * I3. The servers' clock is read off our writes. Ours only says when to ask.
 *
 * Its end.
 * - A late release, or one that gives min_hold up, deletes both.
 * - An earlier end leaves it to its store, else to the next client that sees
 *   it.
 * - A break deletes the holder's node, then lists again for the stand-in (I1).
 * - A grant nobody was told of (cancel, lost session) deletes it; if the
 *   process dies, it stays until its end.
 * - Without a connection, one given up is deleted in the next session.
 *
 * Crossings.
 * - KEEP's answer is lost: sent again, it says EXISTS. min_hold counts from the
 *   first, so the grant does too (kept_from).
 * - The holder's node is deleted meanwhile: NONODE, and the attempt begins
 *   anew.
 * - Another leader's clock differs: the end moves by that. */
#include "store/session/recipe/contender.h"

#include <stdlib.h>
#include <string.h>

#include "store/session/format/data.h"

#define FRESH (60 * DLK_SEC) /* clocks differ in rate */
#define ASK_AGAIN (20 * DLK_MS)
#define REST_AGAIN (100 * DLK_MS)
#define REST_TRIES 20
#define GIVE_UP_AGAIN DLK_SEC

void dlk_ss_clock_heard(struct dlk_ss_store *st, const struct dlk_ss_reply *r,
                        int64_t ms) {
  if (ms == 0 || r->sent < st->clock.sent)
    return;
  st->clock.ms = ms;
  st->clock.sent = r->sent;
  st->clock.unsure_ms = r->stat.unsure_ms;
}

static void on_time(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  (void)tag;
  if (r->rc == DLK_SS_OK)
    dlk_ss_clock_heard(who, r, r->stat.mtime_ms);
}

/* One answer serves all askers of a moment. */
void dlk_ss_clock_ask(struct dlk_ss_session *s, const char *path, size_t len) {
  struct dlk_ss_store *st = dlk_ss_store_of(s);
  int64_t now = dlk_ss_now(st);
  if (st->clock.asked && now - st->clock.asked < ASK_AGAIN)
    return;
  struct dlk_ss_request r = {.verb = DLK_SS_CLOCK,
                             .path = dlk_ss_node_path(st, path, len, NULL)};
  if (r.path && dlk_ss_send(s, &r, on_time, st, 0))
    st->clock.asked = now;
}

bool dlk_ss_clock_known(struct dlk_ss_store *st) {
  return st->clock.ms > 0 && dlk_ss_now(st) - st->clock.sent < FRESH;
}

int64_t dlk_ss_clock_left(struct dlk_ss_store *st, int64_t ms) {
  int64_t left = ms - st->clock.ms;
  if (left > INT64_MAX / DLK_MS / 2)
    return DLK_FOREVER;
  return left * DLK_MS - (dlk_ss_now(st) - st->clock.sent);
}

static bool name_it(struct dlk_ss_contender *n) {
  struct dlk_ss_store *st = n->store;
  char name[DLK_SS_NAME_MAX];
  struct dlk_ss_entry own;
  if (!dlk_ss_name_parse(n->path + n->lock_len + 1, &own))
    return false;
  n->kept_from = dlk_ss_now(st);
  int64_t since = n->kept_from - st->clock.sent;
  n->until_ms = st->clock.ms + st->clock.unsure_ms +
                (since + n->lease->min_hold) / DLK_MS + 1;
  dlk_ss_name_standin(name, &own, n->until_ms);
  const char *path = dlk_ss_contender_sibling(n, name);
  n->standin = path ? strdup(path) : NULL;
  return n->standin != NULL;
}

bool dlk_ss_standin_make(struct dlk_ss_contender *n, dlk_ss_answer *answer) {
  struct dlk_buf *data = &n->store->scratch;
  if (!n->standin && !name_it(n))
    return false;
  dlk_buf_clear(data);
  dlk_ss_data_format(data, n->lease);
  int64_t end = dlk_ss_wall_ms() + n->lease->min_hold / DLK_MS;
  dlk_buf_addf(data, "fence=%lld\nend=%lld\n", (long long)n->fence,
               (long long)end);
  if (data->failed)
    return false;
  struct dlk_ss_request r = {.verb = DLK_SS_KEEP,
                             .path = n->standin,
                             .data = data->data,
                             .len = data->len,
                             .own = n->path};
  return dlk_ss_contender_send(n, &r, answer);
}

bool dlk_ss_standin_take(struct dlk_ss_contender *n) {
  n->kept = name_it(n);
  return n->kept;
}

void dlk_ss_standin_drop(struct dlk_ss_contender *n) {
  dlk_ss_delete_path(n->member.session, n->standin);
}

struct rest {
  struct dlk_list link;
  struct dlk_timer timer;
  struct dlk_ss_store *store;
  int64_t until_ms;
  bool given_up; /* deleted at once */
  int tries;
  size_t lock_len;
  char path[];
};

static void end_rest(struct rest *r) {
  r->store->host->timer_clear(r->store->host, &r->timer);
  dlk_list_remove(&r->link);
  free(r);
}

/* Without a connection or an answer it is left to others, unless given up:
 * nobody else knows of that. */
static void rest_fired(struct dlk_timer *timer, int64_t now) {
  struct rest *r = DLK_CONTAINER(timer, struct rest, timer);
  struct dlk_ss_store *st = r->store;
  struct dlk_ss_session *s =
      r->given_up ? dlk_ss_session_any(&st->sessions) : st->sessions.current;
  bool connected = s && dlk_ss_session_connected(s);
  bool over = r->given_up || st->clock.ms >= r->until_ms;
  int64_t left = dlk_ss_clock_left(st, r->until_ms);
  bool waits = r->given_up ? !connected && left > 0
                           : connected && !over && r->tries++ < REST_TRIES;
  if (!waits) {
    if (over && connected)
      dlk_ss_delete_path(s, r->path);
    end_rest(r);
    return;
  }
  if (connected)
    dlk_ss_clock_ask(s, r->path, r->lock_len);
  if (r->given_up)
    left = GIVE_UP_AGAIN;
  st->host->timer_set(st->host, timer,
                      dlk_time_add(now, left > REST_AGAIN ? left : REST_AGAIN));
}

static void begin_rest(struct dlk_ss_contender *n) {
  struct dlk_ss_store *st = n->store;
  size_t size = strlen(n->standin) + 1;
  struct rest *r = calloc(1, sizeof *r + size);
  if (!r)
    return;
  r->store = st;
  r->until_ms = n->until_ms;
  r->given_up = !n->rests;
  r->lock_len = n->lock_len;
  memcpy(r->path, n->standin, size);
  r->timer.fire = rest_fired;
  dlk_list_append(&st->rests, &r->link);
  st->host->timer_set(st->host, &r->timer,
                      r->given_up ? dlk_ss_now(st) : n->rest_until);
}

void dlk_ss_standin_leave(struct dlk_ss_contender *n) {
  if (!n->standin)
    return;
  struct dlk_ss_session *s = n->member.session;
  if (!n->rests && s && dlk_ss_session_connected(s))
    dlk_ss_standin_drop(n);
  else if (!n->store->sessions.stopping)
    begin_rest(n);
  free(n->standin);
  n->standin = NULL;
}

void dlk_ss_rests_end(struct dlk_ss_store *st) {
  while (!dlk_list_empty(&st->rests))
    end_rest(DLK_CONTAINER(st->rests.next, struct rest, link));
}

void dlk_ss_standins_end(struct dlk_ss_session *s, const char *path,
                         struct dlk_ss_queue *q) {
  struct dlk_ss_store *st = dlk_ss_store_of(s);
  for (size_t i = q->count; i-- > 0;) {
    int64_t end = q->at[i].until_ms;
    if (end == 0 || end > st->clock.ms)
      continue;
    if (path)
      dlk_ss_delete_path(
          s, dlk_ss_node_path(st, path, strlen(path), q->at[i].name));
    dlk_ss_queue_take_out(q, i);
  }
}
