/* A contender from its create to its grant.
 *
 *   PARKED --connected--> CREATING --done--> LISTING <--event--> WAITING
 *     |  a try:             | lost             | first in the queue
 *     +--> PEEKING          v                  v      min_hold only
 *          (free: as        UNSETTLED --fresh  READY -----> KEEPING --> HELD
 *           PARKED)         list--> SETTLING   (horizon)    (hold.c)
 *
 * Each may go to LEAVING and GONE (leave.c). The session's end leads to PARKED
 * in the next one, or to GONE (orphaned).
 *
 * R1. CREATE and LIST leave together: an uncontended acquire is one round trip
 *     (D1). The list counts only if CREATE said OK.
 * R2. A grant needs our node first in a list read after its create in its
 *     session (or second, and the first gone since: place.c), and now < that
 *     session's horizon (D5). Nobody comes in front: numbers rise, and those
 *     behind wait for our node to go. Two holders would need two live nodes
 *     that each see the other gone.
 * R3. An event makes a waiter list again. Its absence from a list means that
 *     its node was taken: it joins anew.
 * R4. A CREATE without an answer may be done. A fresh LIST decides it (D2),
 *     else we would wait behind our own node. The node is found by its guid,
 *     and counts only if this session owns it. Not found: a new guid.
 * R5. A listed node of our client that no contender claims is deleted. A
 *     contender claims its guid from before the CREATE until its node is known
 *     to be gone.
 * R6. A withdrawn contender is deleted until gone (leave.c).
 * R7. A try (no wait) first reads a fresh list, in any session: a contender
 *     there makes it busy without a write. That list grants nothing. */
#include "store/session/recipe/contender.h"

#include <stdlib.h>
#include <string.h>

#include "store/session/format/data.h"

#define TRIES_MAX 10

static void on_created(void *who, uint32_t tag, const struct dlk_ss_reply *r);

static bool send_create(struct dlk_ss_contender *n) {
  struct dlk_ss_store *st = n->store;
  struct dlk_buf *data = &st->scratch;
  char name[DLK_SS_NAME_MAX];
  dlk_buf_clear(data);
  dlk_ss_data_format(data, n->lease);
  if (data->failed)
    return false;
  dlk_ss_name_format(name, n->want.units, n->want.cap, n->lease->min_hold > 0,
                     n->guid, st->client);
  dlk_ss_contender_name(n, name);
  n->sent = dlk_ss_now(st);
  struct dlk_ss_request r = {.verb = DLK_SS_CREATE,
                             .path = n->path,
                             .data = data->data,
                             .len = data->len,
                             .attempt = n->tries,
                             .leads = true};
  bool ok = dlk_ss_contender_send(n, &r, on_created);
  n->path[n->lock_len] = '\0';
  if (ok)
    dlk_ss_contender_confirms(n, DLK_SS_CREATE, n->sent);
  return ok;
}

/* A list that could not be sent (no memory) is asked for later. */
static void start(struct dlk_ss_contender *n) {
  struct dlk_ss_store *st = n->store;
  unsigned char random[DLK_SS_GUID / 2];
  dlk_ss_standin_leave(n); /* a former node's */
  n->kept = n->rests = false;
  dlk_ss_contender_forget_name(n);
  if (n->leaving || !n->lease) {
    dlk_ss_finish(n, DLK_OK);
    return;
  }
  if (!n->wait && !n->peeked) {
    dlk_ss_place_peek(n);
    return;
  }
  st->host->random(st->host, random, sizeof random);
  dlk_ss_hex(n->guid, random, sizeof random);
  if (!dlk_map_put(&st->by_guid, &n->by_guid, n->guid, DLK_SS_GUID) ||
      !send_create(n)) {
    dlk_ss_fail(n, DLK_UNAVAILABLE);
    return;
  }
  dlk_ss_contender_step(n, DLK_SS_CREATING);
  n->first_list = dlk_ss_place_list(n);
  dlk_ss_session_tick(n->member.session);
}

static const char *name_in(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* Its name is known. */
static void created(struct dlk_ss_contender *n, int64_t fence) {
  n->fence = fence;
  n->tries = 0;
  dlk_ss_contender_step(n, DLK_SS_LISTING);
  if (n->leaving)
    dlk_ss_leave(n, n->outcome);
  else if (!n->first_list)
    dlk_ss_place_relist(n);
}

static bool is_own_name(const struct dlk_ss_contender *n, const char *name) {
  struct dlk_ss_entry e;
  return strlen(name) < dlk_ss_name_room(n->want.units) &&
         dlk_ss_name_parse(name, &e) &&
         memcmp(e.guid, n->guid, DLK_SS_GUID) == 0;
}

static void unsettled(struct dlk_ss_contender *n) {
  dlk_ss_contender_step_out(n);
  dlk_ss_contender_step(n, DLK_SS_UNSETTLED);
  dlk_ss_contender_stall(n);
}

/* An answer with a foreign name counts as none. */
static void on_created(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  struct dlk_ss_contender *n = who;
  dlk_ss_contender_confirmed(n, tag, r->rc == DLK_SS_OK);
  if (!dlk_ss_contender_answered(n))
    return;
  bool foreign = r->rc == DLK_SS_OK && !is_own_name(n, name_in(r->path));
  switch (dlk_ss_meaning(DLK_SS_FOR_NODE, foreign ? DLK_SS_CUT : r->rc)) {
  case DLK_SS_ANSWERED:
    dlk_ss_clock_heard(n->store, r, r->stat.ctime_ms);
    dlk_ss_contender_name(n, name_in(r->path));
    created(n, r->stat.fence);
    break;
  case DLK_SS_MISSING:
    if (++n->tries > TRIES_MAX)
      dlk_ss_fail(n, DLK_UNAVAILABLE);
    else
      start(n);
    break;
  case DLK_SS_SETTLE:
    dlk_ss_op_heard(n->op, r);
    if (n->leaving)
      dlk_ss_contender_end_op(n);
    unsettled(n);
    break;
  default:
    dlk_ss_op_heard(n->op, r);
    dlk_ss_fail(n, dlk_ss_code(r->rc));
  }
}

/* True: the answer says what there is; else n goes on by itself. */
static bool says(struct dlk_ss_contender *n, enum dlk_ss_rc rc) {
  switch (dlk_ss_meaning(DLK_SS_FOR_SETTLING, rc)) {
  case DLK_SS_INSIST:
    unsettled(n);
    return false;
  case DLK_SS_REFUSED:
    dlk_ss_abandon(n, dlk_ss_code(rc));
    return false;
  default:
    return true;
  }
}

static void on_adopted(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  struct dlk_ss_contender *n = who;
  if (!dlk_ss_contender_answered(n) || tag != n->tag || !says(n, r->rc))
    return;
  if (r->rc == DLK_SS_OK && r->stat.owner == n->member.session->id &&
      is_own_name(n, name_in(n->path))) {
    n->first_list = false;
    created(n, r->stat.fence);
  } else {
    start(n);
  }
}

static bool on_searched(struct dlk_ss_contender *n,
                        const struct dlk_ss_listing *l) {
  if (!l->due || n->step != DLK_SS_SETTLING || !says(n, l->rc))
    return true;
  bool there = l->queue && l->place < l->queue->count;
  const char *name = there ? l->queue->at[l->place].name : "";
  if (!is_own_name(n, name)) {
    start(n);
    return true;
  }
  dlk_ss_contender_name(n, name);
  struct dlk_ss_request get = {.verb = DLK_SS_READ, .path = n->path};
  if (!dlk_ss_contender_send(n, &get, on_adopted))
    unsettled(n);
  return true;
}

static void settle(struct dlk_ss_contender *n) {
  n->path[n->lock_len] = '\0';
  if (dlk_ss_lists_ask(n, true, on_searched))
    dlk_ss_contender_step(n, DLK_SS_SETTLING);
  else
    dlk_ss_contender_stall(n);
}

static void join(struct dlk_ss_contender *n) {
  struct dlk_ss_sessions *ss = &n->store->sessions;
  bool looks = !n->wait && !n->peeked;
  struct dlk_ss_session *s =
      looks ? dlk_ss_session_any(ss) : dlk_ss_session_pick(ss);
  if (!s) {
    dlk_ss_fail(n, DLK_UNAVAILABLE);
    return;
  }
  dlk_ss_session_join(s, &n->member);
  dlk_ss_contender_step(n, DLK_SS_PARKED);
  if (s->state == DLK_SS_CONNECTED)
    start(n);
}

/* Goes on in a new contender's session; nothing is under way. */
static void rejoin(struct dlk_ss_contender *n) {
  struct dlk_ss_store *st = n->store;
  dlk_ss_contender_forget_name(n);
  dlk_ss_contender_step(n, DLK_SS_GONE);
  dlk_ss_session_leave(&n->member);
  n->tag++;
  n->tries = 0;
  st->host->timer_clear(st->host, &n->timer);
  join(n);
}

static void gone(struct dlk_ss_member *m) {
  struct dlk_ss_contender *n = dlk_ss_contender(m);
  if (n->step == DLK_SS_HELD)
    dlk_ss_lose(n, "its entry was deleted, or taken from its session", true);
  else if (n->step >= DLK_SS_LISTING && n->step <= DLK_SS_KEEPING)
    start(n);
}

/* Of a detach under way its own answer tells. */
static void unbound(struct dlk_ss_member *m) {
  struct dlk_ss_contender *n = dlk_ss_contender(m);
  if (n->step == DLK_SS_HELD && !n->detaching) {
    dlk_ss_lose(n, "its entry on the servers is not bound to the session",
                false);
  } else if (n->step >= DLK_SS_LISTING && n->step <= DLK_SS_KEEPING) {
    dlk_ss_delete_path(m->session, n->path);
    start(n);
  }
}

static void resume(struct dlk_ss_member *m) {
  struct dlk_ss_contender *n = dlk_ss_contender(m);
  bool was_look = n->step == DLK_SS_PEEKING && n->peeked;
  if (was_look && n->member.flying == 0) {
    rejoin(n);
    return;
  }
  if (!dlk_ss_session_connected(m->session))
    return;
  n->store->host->timer_clear(n->store->host, &n->timer);
  switch (n->step) {
  case DLK_SS_PARKED:
  case DLK_SS_PEEKING:
    start(n);
    break;
  case DLK_SS_UNSETTLED:
    settle(n);
    break;
  case DLK_SS_LISTING:
  case DLK_SS_WAITING:
  case DLK_SS_READY:
    dlk_ss_place_relist(n);
    break;
  case DLK_SS_KEEPING:
    dlk_ss_grant(n, n->sent);
    break;
  case DLK_SS_LEAVING:
    dlk_ss_delete(n);
    break;
  case DLK_SS_HELD:
    dlk_ss_hold_resume(n);
    break;
  case DLK_SS_CREATING:
  case DLK_SS_SETTLING:
  case DLK_SS_GONE:
    break;
  }
}

/* The session took the node: a hold is lost, a leaver is gone, a waiter joins
 * the next session. */
static void orphaned(struct dlk_ss_member *m, enum dlk_code code) {
  struct dlk_ss_contender *n = dlk_ss_contender(m);
  struct dlk_ss_store *st = n->store;
  m->flying = 0;
  if (n->step == DLK_SS_HELD) {
    dlk_ss_lose(n, "the session is over", true);
    return;
  }
  bool over = n->step >= DLK_SS_LEAVING || n->leaving || !n->lease;
  if (over || code != DLK_OK || st->sessions.stopping) {
    n->cut = false;
    if (!over)
      n->outcome = code == DLK_OK ? DLK_UNAVAILABLE : code;
    dlk_ss_finish(n, code == DLK_CLOSED ? code : DLK_LOST);
    return;
  }
  rejoin(n);
}

static void armed(struct dlk_ss_member *m, const struct dlk_ss_sight *sight) {
  if (sight->own)
    dlk_ss_own_armed(dlk_ss_contender(m), sight);
  else
    dlk_ss_place_armed(dlk_ss_contender(m), sight);
}

static void changed(struct dlk_ss_member *m, bool own, enum dlk_ss_rc rc) {
  if (own)
    dlk_ss_own_over(dlk_ss_contender(m), rc);
  else
    dlk_ss_place_changed(dlk_ss_contender(m), rc);
}

static const char *path_of(const struct dlk_ss_member *m) {
  return DLK_CONTAINER(m, const struct dlk_ss_contender, member)->path;
}

static void proven(struct dlk_ss_member *m) {
  dlk_ss_place_relist(dlk_ss_contender(m));
}

static void expired(struct dlk_ss_member *m) {
  dlk_ss_hold_expired(dlk_ss_contender(m));
}

static void discard(struct dlk_ss_member *m) {
  free(dlk_ss_contender(m));
}

static const struct dlk_ss_member_type contender = {
    .by_list = true,
    .resume = resume,
    .orphaned = orphaned,
    .armed = armed,
    .changed = changed,
    .path = path_of,
    .gone = gone,
    .unbound = unbound,
    .proven = proven,
    .expired = expired,
    .discard = discard,
};

void dlk_ss_acquire(struct dlk_ss_store *st, struct dlk_op *op) {
  struct dlk_want want = op->lease->want;
  if (want.cap > 0 && want.units > want.cap) {
    dlk_ss_done_text(st, op, DLK_INVALID,
                     "more permits are asked for than there are");
    return;
  }
  struct dlk_ss_contender *n = dlk_ss_contender_new(st, op, &contender);
  if (n)
    join(n);
  else
    dlk_ss_done(st, op, DLK_UNAVAILABLE);
}

bool dlk_ss_adopt(struct dlk_ss_session *s, struct dlk_op *op,
                  const struct dlk_ss_entry *node, int64_t fence,
                  int64_t sent) {
  struct dlk_ss_store *st = dlk_ss_store_of(s);
  const struct dlk_want want = op->lease->want;
  op->lease->want = (struct dlk_want){node->units, node->cap}; /* its name's */
  struct dlk_ss_contender *n = dlk_ss_contender_new(st, op, &contender);
  op->lease->want = want;
  if (!n)
    return false;
  dlk_ss_contender_name(n, node->name);
  n->guid = n->path + n->lock_len + 1 + (node->guid - node->name);
  n->downgraded = node->units == 0 && want.units > 0;
  n->fence = fence;
  if (!dlk_map_put(&st->by_guid, &n->by_guid, n->guid, DLK_SS_GUID) ||
      (op->lease->min_hold > 0 && !dlk_ss_standin_take(n))) {
    dlk_ss_contender_serve(n, NULL);
    dlk_map_remove(&st->by_guid, &n->by_guid);
    free(n);
    return false;
  }
  dlk_ss_session_join(s, &n->member);
  dlk_ss_contender_step(n, DLK_SS_LISTING);
  dlk_ss_grant(n, sent);
  return true;
}
