/* What every step of a contender's life needs: its place in memory and in its
 * session, its requests and their answers, its name, and the pointers between
 * it, its op and its lease, each of which is set in one place, here.
 *
 * A contender claims its guid (by_guid) from before its create is sent until
 * its node is known to be gone; place.c relies on that. */
#include "store/session/recipe/contender.h"

#include <stdlib.h>
#include <string.h>

#include "store/session/life/chain.h"
#include "store/session/life/watch.h"

#define STALL (100 * DLK_MS)

/* ---- memory ---- */

static void timer_fired(struct dlk_timer *timer, int64_t now) {
  (void)now;
  dlk_zk_contender_resume(DLK_CONTAINER(timer, struct dlk_zk_contender, timer));
}

/* The lock's path, '/', the name. */
static struct dlk_zk_contender *allocate(const struct dlk_buf *path,
                                         const struct dlk_lease *lease) {
  const struct dlk_want *want = &lease->want;
  bool keeps = lease->min_hold > 0;
  size_t room = path->len + 1 + dlk_zk_name_room(want->units);
  struct dlk_zk_contender *n =
      path->failed ? NULL : calloc(1, sizeof *n + room);
  if (!n)
    return NULL;
  memcpy(n->path, path->data, path->len);
  n->lock_len = path->len;
  n->guid = n->path + path->len + 1 +
            dlk_zk_name_guid_at(want->units, want->cap, keeps);
  return n;
}

struct dlk_zk_contender *
dlk_zk_contender_new(struct dlk_zk_store *st, struct dlk_op *op,
                     const struct dlk_zk_member_type *type) {
  struct dlk_buf path = {0};
  dlk_zk_lock_path(st, &path, op->key, op->key_len);
  struct dlk_zk_contender *n = allocate(&path, op->lease);
  dlk_buf_free(&path);
  if (!n)
    return NULL;
  dlk_zk_member_init(&n->member, type);
  dlk_list_init(&n->line);
  dlk_list_init(&n->extends);
  n->store = st;
  n->lease = op->lease;
  n->wait = op->wait;
  n->member.awaits =
      n->wait ? n->lock_len + 1 + dlk_zk_name_room(op->lease->want.units) : 0;
  n->want = op->lease->want;
  n->timer.fire = timer_fired;
  n->step = DLK_ZK_GONE;
  dlk_zk_contender_serve(n, op);
  return n;
}

bool dlk_zk_contender_answered(struct dlk_zk_contender *n) {
  n->member.flying--;
  if (n->step != DLK_ZK_GONE)
    return true;
  if (n->member.flying == 0) {
    dlk_list_remove(&n->member.link);
    free(n);
  }
  return false;
}

/* ---- step, op, lease ---- */

static const enum dlk_zk_use use_of[] = {
    [DLK_ZK_PARKED] = DLK_ZK_USE_PARKED,
    [DLK_ZK_PEEKING] = DLK_ZK_USE_COMING,
    [DLK_ZK_CREATING] = DLK_ZK_USE_COMING,
    [DLK_ZK_UNSETTLED] = DLK_ZK_USE_COMING,
    [DLK_ZK_SETTLING] = DLK_ZK_USE_COMING,
    [DLK_ZK_LISTING] = DLK_ZK_USE_STANDING,
    [DLK_ZK_WAITING] = DLK_ZK_USE_STANDING,
    [DLK_ZK_READY] = DLK_ZK_USE_READY,
    [DLK_ZK_KEEPING] = DLK_ZK_USE_STANDING,
    [DLK_ZK_HELD] = DLK_ZK_USE_HELD,
    [DLK_ZK_LEAVING] = DLK_ZK_USE_NONE,
    [DLK_ZK_GONE] = DLK_ZK_USE_NONE,
};

void dlk_zk_contender_step(struct dlk_zk_contender *n, enum dlk_zk_step step) {
  dlk_zk_session_use(&n->member, use_of[step]);
  n->step = step;
}

void dlk_zk_contender_serve(struct dlk_zk_contender *n, struct dlk_op *op) {
  if (n->op)
    dlk_zk_op_data(n->op)->node = NULL;
  n->op = op;
  if (op)
    dlk_zk_op_data(op)->node = n;
}

static struct dlk_zk_lease_data *lease_data(struct dlk_lease *lease) {
  return lease->data;
}

void dlk_zk_contender_hold(struct dlk_zk_contender *n) {
  lease_data(n->lease)->node = n;
}

void dlk_zk_contender_unhold(struct dlk_zk_contender *n) {
  if (n->lease)
    lease_data(n->lease)->node = NULL;
  n->lease = NULL;
}

/* ---- requests ---- */

bool dlk_zk_contender_send(struct dlk_zk_contender *n,
                           struct dlk_session_request *r,
                           dlk_zk_answer *answer) {
  if (!dlk_zk_send(n->member.session, r, answer, n, ++n->tag))
    return false;
  n->member.flying++;
  return true;
}

static void ignore(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
  (void)who;
  (void)tag;
  (void)r;
}

void dlk_zk_delete_path(struct dlk_zk_session *s, const char *path) {
  struct dlk_session_request r = {.verb = DLK_SESSION_DELETE, .path = path};
  if (path && s && dlk_zk_session_connected(s))
    dlk_zk_send(s, &r, ignore, NULL, 0);
}

void dlk_zk_contender_confirms(struct dlk_zk_contender *n, int64_t now) {
  struct dlk_zk_session *s = n->member.session;
  n->confirm = s->rule->sent(&s->proof, now);
  n->confirm_tag = n->tag;
}

void dlk_zk_contender_confirmed(struct dlk_zk_contender *n, uint32_t tag,
                                bool ok) {
  if (tag == n->confirm_tag)
    dlk_zk_session_confirmed(n->member.session, n->confirm, ok);
}

void dlk_zk_contender_stall(struct dlk_zk_contender *n) {
  struct dlk_zk_store *st = n->store;
  n->tag++;
  if (dlk_zk_session_connected(n->member.session))
    st->host->timer_set(st->host, &n->timer, dlk_zk_now(st) + STALL);
}

/* ---- its name, and what it watches ---- */

void dlk_zk_contender_unwatch(struct dlk_zk_contender *n) {
  dlk_zk_watch_drop(&n->member);
  n->watched = false;
}

void dlk_zk_contender_name(struct dlk_zk_contender *n, const char *name) {
  n->path[n->lock_len] = '/';
  memcpy(n->path + n->lock_len + 1, name, strlen(name) + 1);
}

void dlk_zk_contender_step_out(struct dlk_zk_contender *n) {
  dlk_list_remove(&n->line);
  n->due = false;
}

/* What was asked about the old name is answered for nobody. */
void dlk_zk_contender_forget_name(struct dlk_zk_contender *n) {
  dlk_zk_contender_step_out(n);
  dlk_zk_session_unname(&n->member);
  dlk_map_remove(&n->store->by_guid, &n->by_guid);
  dlk_zk_contender_unwatch(n);
  n->path[n->lock_len] = '\0';
  n->czxid = 0;
  n->cut = n->downgraded = false;
}

const char *dlk_zk_contender_sibling(struct dlk_zk_contender *n,
                                     const char *name) {
  struct dlk_buf *b = &n->store->scratch;
  dlk_buf_clear(b);
  dlk_buf_add(b, n->path, n->lock_len);
  return dlk_zk_path(b, n->lock_len, name);
}
