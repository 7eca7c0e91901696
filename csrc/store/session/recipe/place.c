/* A contender's place in the queue: the verdict on a list, and grant, giving up
 * or watches.
 *
 * Second in the queue. A waiter lists again after each event, but for one case:
 * its list had exactly one node ahead, which is gone (a deletion event, or
 * NONODE to the read for the watch). Then it is first and holds.
 *
 * P1. The list had its own node, so each lower number stood there or was gone.
 *     Numbers restart only with a new folder, and a folder with our node cannot
 *     go.
 * P2. A node that is gone never returns: its guid belongs to one attempt.
 * P3. The node ahead had no min_hold, or was a stand-in: nothing stands in.
 * P4. A mark on it or a new connection makes the waiter list.
 * P5. Its own node stands while its session does, unless somebody deleted it. A
 *     list would tell, this way does not, so it counts only until SURE_FOR
 *     after the list. Let in then, it learns of the deletion as a holder does;
 *     guarded writes fail and the next fence is larger.
 *
 * Worn numbers (driver.h) tell no order. A contender with one neither holds nor
 * waits: it deletes its node (and all, if only worn ones stand there), then the
 * folder, and comes again. The folder goes only when empty; once good numbers
 * have left one delete succeeds, and numbers begin anew. Fences rise all the
 * same (D6). */
#include "store/session/recipe/contender.h"

#include <stdlib.h>
#include <string.h>

#define SURE_FOR (20 * DLK_MS)
#define LOOK_AGAIN (20 * DLK_MS)

static dlk_ss_told on_listed;

bool dlk_ss_place_list(struct dlk_ss_contender *n) {
  return dlk_ss_lists_ask(n, false, on_listed);
}

void dlk_ss_place_relist(struct dlk_ss_contender *n) {
  if (n->behind_ms && dlk_ss_session_connected(n->member.session))
    dlk_ss_clock_ask(n->member.session, n->path, n->lock_len);
  n->behind_ms = 0;
  dlk_ss_contender_unwatch(n);
  dlk_ss_contender_step(n, DLK_SS_LISTING);
  n->first_list = false;
  n->sent = dlk_ss_now(n->store);
  if (!dlk_ss_session_connected(n->member.session) || !dlk_ss_place_list(n))
    dlk_ss_contender_stall(n);
}

/* n shares, and an exclusive node keeps it out. */
static bool behind_exclusive(const struct dlk_ss_contender *n,
                             const struct dlk_ss_queue *q,
                             const struct dlk_ss_judgement *j) {
  return j->verdict == DLK_SS_WATCH_NODES && n->want.units != 0 &&
         q->at[j->watch[0]].units == 0;
}

static int knows(struct dlk_ss_contender *n, const char *name) {
  const char *path = dlk_ss_contender_sibling(n, name);
  return path ? dlk_ss_watch_knows(n->member.session, path) : 1;
}

static void judge(struct dlk_ss_contender *n, struct dlk_ss_queue *q,
                  size_t place, struct dlk_ss_judgement *j) {
  for (;;) {
    if (n->step == DLK_SS_PEEKING)
      dlk_ss_queue_judge_newcomer(q, n->want.units, n->want.cap, j);
    else
      dlk_ss_queue_judge(q, place, j);
    if (!behind_exclusive(n, q, j) || knows(n, q->at[j->watch[0]].name) != 2)
      return;
    dlk_ss_queue_downgrade(q, j->watch[0]);
  }
}

/* A try answers at once; a sharer first learns whether the exclusive node ahead
 * was downgraded. */
static bool gives_up(struct dlk_ss_contender *n, const struct dlk_ss_queue *q,
                     const struct dlk_ss_judgement *j) {
  if (n->wait)
    return false;
  return !behind_exclusive(n, q, j) || knows(n, q->at[j->watch[0]].name) == 1;
}

static void set_watches(struct dlk_ss_contender *n,
                        const struct dlk_ss_queue *q,
                        const struct dlk_ss_judgement *j) {
  struct dlk_ss_store *st = n->store;
  bool ok = true;
  dlk_ss_contender_step(n, DLK_SS_WAITING);
  n->second = j->me == 1 && (!q->at[0].keeps || q->at[0].until_ms > 0);
  if (j->verdict == DLK_SS_WATCH_LIST) {
    char kept = n->path[n->lock_len];
    n->path[n->lock_len] = '\0';
    ok = dlk_ss_watch_add(&n->member, n->path, false, true);
    n->path[n->lock_len] = kept;
  }
  for (size_t i = 0; ok && i < j->watch_count; i++) {
    const char *path = dlk_ss_contender_sibling(n, q->at[j->watch[i]].name);
    ok = path && dlk_ss_watch_add(&n->member, path, false, false);
  }
  n->behind_ms = dlk_ss_queue_first_end(q, j);
  int64_t left = dlk_ss_clock_left(st, n->behind_ms);
  if (!ok)
    dlk_ss_contender_stall(n);
  else if (n->behind_ms)
    st->host->timer_set(
        st->host, &n->timer,
        dlk_time_add(dlk_ss_now(st), left > LOOK_AGAIN ? left : LOOK_AGAIN));
}

static bool is_worn(const struct dlk_ss_contender *n, int64_t number) {
  const struct dlk_ss_driver *driver = n->store->driver;
  return driver->worn && driver->worn(number);
}

static void begin_anew(struct dlk_ss_contender *n,
                       const struct dlk_ss_queue *q) {
  bool good = false;
  for (size_t i = 0; i < q->count; i++)
    good |= !is_worn(n, q->at[i].seq);
  for (size_t i = 0; i < q->count; i++)
    if (!good || memcmp(q->at[i].guid, n->guid, DLK_SS_GUID) == 0)
      dlk_ss_delete_path(n->member.session,
                         dlk_ss_contender_sibling(n, q->at[i].name));
  dlk_ss_contender_forget_name(n);
  dlk_ss_delete_path(n->member.session, n->path);
  dlk_ss_contender_step(n, DLK_SS_PARKED);
  dlk_ss_contender_stall(n);
}

/* No verdict: what was listed is missing, refused, or asked for again. */
static void no_list(struct dlk_ss_contender *n, enum dlk_ss_rc rc,
                    void (*missing)(struct dlk_ss_contender *n)) {
  switch (dlk_ss_meaning(DLK_SS_FOR_PLACE, rc)) {
  case DLK_SS_MISSING:
    missing(n);
    break;
  case DLK_SS_REFUSED:
    dlk_ss_leave(n, dlk_ss_code(rc));
    break;
  default:
    dlk_ss_contender_stall(n);
  }
}

/* A list that is not due may only let in (lists.c, I2). */
static bool on_listed(struct dlk_ss_contender *n,
                      const struct dlk_ss_listing *l) {
  struct dlk_ss_judgement j;
  n->first_list &= l->rc == DLK_SS_OK;
  if (n->step != DLK_SS_LISTING && (l->due || n->step != DLK_SS_WAITING))
    return true;
  if (l->rc != DLK_SS_OK) {
    no_list(n, l->rc, dlk_ss_contender_vanished);
    return true;
  }
  judge(n, l->queue, l->place, &j);
  bool holds = j.verdict == DLK_SS_HOLDS;
  if (!holds && !l->due)
    return false;
  dlk_ss_contender_unwatch(n);
  dlk_ss_contender_step_out(n);
  if (j.verdict != DLK_SS_ABSENT && is_worn(n, l->queue->at[j.me].seq)) {
    begin_anew(n, l->queue);
    return holds;
  }
  switch (j.verdict) {
  case DLK_SS_ABSENT:
    dlk_ss_contender_vanished(n);
    break;
  case DLK_SS_HOLDS:
    dlk_ss_grant(n, l->sent);
    break;
  case DLK_SS_OTHER_LIMIT:
    dlk_ss_leave(n, DLK_INVALID);
    break;
  case DLK_SS_WATCH_NODES:
  case DLK_SS_WATCH_LIST:
    free(n->head);
    n->head = strdup(l->queue->at[0].name);
    if (gives_up(n, l->queue, &j))
      dlk_ss_leave(n, DLK_BUSY);
    else
      set_watches(n, l->queue, &j);
    break;
  }
  return holds;
}

/* A waiter on children that is not listed was deleted. Sharers pass a
 * downgraded hold. */
void dlk_ss_place_armed(struct dlk_ss_contender *n,
                        const struct dlk_ss_sight *sight) {
  if (n->step != DLK_SS_WAITING)
    return;
  if (!sight->list && (sight->downgraded || !n->wait))
    dlk_ss_place_relist(n);
  else if (sight->list && n->listed != n->member.session->lists)
    dlk_ss_contender_vanished(n);
}

void dlk_ss_place_changed(struct dlk_ss_contender *n, enum dlk_ss_rc rc) {
  int64_t now = dlk_ss_now(n->store);
  if (n->step != DLK_SS_WAITING)
    return;
  if (rc == DLK_SS_NONODE && n->second && now - n->sent <= SURE_FOR) {
    dlk_ss_grant(n, now);
  } else if (rc == DLK_SS_OK) {
    dlk_ss_place_relist(n);
  } else {
    no_list(n, rc, dlk_ss_place_relist);
  }
}

static void on_blocker(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  struct dlk_ss_contender *n = who;
  if (!dlk_ss_contender_answered(n) || tag != n->tag)
    return;
  if (r->rc == DLK_SS_OK && n->op)
    dlk_ss_keep_holder(n->op, r);
  dlk_ss_leave(n, DLK_BUSY);
}

static void is_busy(struct dlk_ss_contender *n, const struct dlk_ss_queue *q) {
  struct dlk_ss_request r = {
      .verb = DLK_SS_READ, .path = dlk_ss_contender_sibling(n, q->at[0].name)};
  if (!r.path || !dlk_ss_contender_send(n, &r, on_blocker))
    dlk_ss_leave(n, DLK_BUSY);
}

static void join_queue(struct dlk_ss_contender *n) {
  n->peeked = true;
  dlk_ss_contender_resume(n);
}

/* Whether the stand-in ahead is over must be known first. */
static bool asks_time(struct dlk_ss_contender *n,
                      const struct dlk_ss_listing *l,
                      const struct dlk_ss_judgement *j) {
  bool asked = n->behind_ms != 0;
  n->behind_ms = dlk_ss_queue_first_end(l->queue, j);
  if (asked || !n->behind_ms)
    return false;
  dlk_ss_clock_ask(n->member.session, n->path, n->lock_len);
  dlk_ss_place_peek(n);
  return true;
}

static bool on_peeked(struct dlk_ss_contender *n,
                      const struct dlk_ss_listing *l) {
  struct dlk_ss_judgement j;
  if (!l->due || n->step != DLK_SS_PEEKING)
    return true;
  if (l->rc != DLK_SS_OK) {
    no_list(n, l->rc, join_queue);
    return true;
  }
  judge(n, l->queue, l->place, &j);
  if (j.verdict == DLK_SS_OTHER_LIMIT)
    dlk_ss_leave(n, DLK_INVALID);
  else if (j.verdict == DLK_SS_HOLDS || !gives_up(n, l->queue, &j))
    join_queue(n);
  else if (!asks_time(n, l, &j))
    is_busy(n, l->queue);
  return true;
}

/* A fresh list shows every release answered before the try. It grants nothing.
 */
void dlk_ss_place_peek(struct dlk_ss_contender *n) {
  dlk_ss_contender_step(n, DLK_SS_PEEKING);
  if (!dlk_ss_lists_ask(n, true, on_peeked))
    dlk_ss_contender_stall(n);
}
