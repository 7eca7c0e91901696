/* What each step of a contender's life needs: memory, place in its session,
 * requests, name; and the pointers to its op and lease, set only here. */
#include "store/session/recipe/contender.h"

#include <stdlib.h>
#include <string.h>

#define STALL (100 * DLK_MS)

static void timer_fired(struct dlk_timer *timer, int64_t now) {
  (void)now;
  dlk_ss_contender_resume(DLK_CONTAINER(timer, struct dlk_ss_contender, timer));
}

struct dlk_ss_contender *
dlk_ss_contender_new(struct dlk_ss_store *st, struct dlk_op *op,
                     const struct dlk_ss_member_type *type) {
  const struct dlk_want want = op->lease->want;
  struct dlk_buf path = {0};
  dlk_ss_lock_path(st, &path, op->key, op->key_len);
  size_t room = path.len + 1 + dlk_ss_name_room(want.units);
  struct dlk_ss_contender *n = path.failed ? NULL : calloc(1, sizeof *n + room);
  if (!n) {
    dlk_buf_free(&path);
    return NULL;
  }
  memcpy(n->path, path.data, path.len);
  n->lock_len = path.len;
  n->guid = n->path + path.len + 1 +
            dlk_ss_name_guid_at(want.units, want.cap, op->lease->min_hold > 0);
  dlk_buf_free(&path);
  dlk_ss_member_init(&n->member, type);
  dlk_list_init(&n->line);
  dlk_list_init(&n->extends);
  n->store = st;
  n->lease = op->lease;
  n->wait = op->wait;
  n->member.awaits = n->wait ? room : 0;
  n->want = want;
  n->timer.fire = timer_fired;
  n->step = DLK_SS_GONE;
  dlk_ss_contender_serve(n, op);
  return n;
}

bool dlk_ss_contender_answered(struct dlk_ss_contender *n) {
  n->member.flying--;
  if (n->step != DLK_SS_GONE)
    return true;
  if (n->member.flying == 0) {
    dlk_list_remove(&n->member.link);
    free(n);
  }
  return false;
}

static const enum dlk_ss_use use_of[] = {
    [DLK_SS_PARKED] = DLK_SS_USE_PARKED,
    [DLK_SS_PEEKING] = DLK_SS_USE_COMING,
    [DLK_SS_CREATING] = DLK_SS_USE_COMING,
    [DLK_SS_UNSETTLED] = DLK_SS_USE_COMING,
    [DLK_SS_SETTLING] = DLK_SS_USE_COMING,
    [DLK_SS_LISTING] = DLK_SS_USE_STANDING,
    [DLK_SS_WAITING] = DLK_SS_USE_STANDING,
    [DLK_SS_READY] = DLK_SS_USE_READY,
    [DLK_SS_KEEPING] = DLK_SS_USE_STANDING,
    [DLK_SS_HELD] = DLK_SS_USE_HELD,
    [DLK_SS_LEAVING] = DLK_SS_USE_NONE,
    [DLK_SS_GONE] = DLK_SS_USE_NONE,
};

void dlk_ss_contender_step(struct dlk_ss_contender *n, enum dlk_ss_step step) {
  dlk_ss_session_use(&n->member, use_of[step]);
  n->step = step;
}

void dlk_ss_contender_serve(struct dlk_ss_contender *n, struct dlk_op *op) {
  if (n->op)
    dlk_ss_op_data(n->op)->node = NULL;
  n->op = op;
  if (op)
    dlk_ss_op_data(op)->node = n;
}

static struct dlk_ss_lease_data *lease_data(struct dlk_lease *lease) {
  return lease->data;
}

void dlk_ss_contender_hold(struct dlk_ss_contender *n) {
  lease_data(n->lease)->node = n;
}

void dlk_ss_contender_unhold(struct dlk_ss_contender *n) {
  if (n->lease)
    lease_data(n->lease)->node = NULL;
  n->lease = NULL;
}

bool dlk_ss_contender_send(struct dlk_ss_contender *n, struct dlk_ss_request *r,
                           dlk_ss_answer *answer) {
  if (!dlk_ss_send(n->member.session, r, answer, n, ++n->tag))
    return false;
  n->member.flying++;
  return true;
}

static void ignore(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  (void)who;
  (void)tag;
  (void)r;
}

void dlk_ss_delete_path(struct dlk_ss_session *s, const char *path) {
  struct dlk_ss_request r = {.verb = DLK_SS_DELETE, .path = path};
  if (path && s && dlk_ss_session_connected(s))
    dlk_ss_send(s, &r, ignore, NULL, 0);
}

void dlk_ss_contender_confirms(struct dlk_ss_contender *n,
                               enum dlk_ss_verb verb, int64_t now) {
  struct dlk_ss_session *s = n->member.session;
  n->confirm = dlk_ss_proof_sent(&s->proof, verb, now);
  n->confirm_tag = n->tag;
}

void dlk_ss_contender_confirmed(struct dlk_ss_contender *n, uint32_t tag,
                                bool ok) {
  if (tag == n->confirm_tag)
    dlk_ss_session_confirmed(n->member.session, n->confirm, ok);
}

void dlk_ss_contender_stall(struct dlk_ss_contender *n) {
  struct dlk_ss_store *st = n->store;
  n->tag++;
  if (dlk_ss_session_connected(n->member.session))
    st->host->timer_set(st->host, &n->timer, dlk_ss_now(st) + STALL);
}

void dlk_ss_contender_unwatch(struct dlk_ss_contender *n) {
  dlk_ss_watch_drop(&n->member);
  n->watched = false;
}

void dlk_ss_contender_name(struct dlk_ss_contender *n, const char *name) {
  n->path[n->lock_len] = '/';
  memcpy(n->path + n->lock_len + 1, name, strlen(name) + 1);
}

void dlk_ss_contender_step_out(struct dlk_ss_contender *n) {
  dlk_list_remove(&n->line);
  n->due = false;
}

/* Answers about the old name reach nobody. */
void dlk_ss_contender_forget_name(struct dlk_ss_contender *n) {
  dlk_ss_contender_step_out(n);
  dlk_ss_session_unname(&n->member);
  dlk_map_remove(&n->store->by_guid, &n->by_guid);
  dlk_ss_contender_unwatch(n);
  n->path[n->lock_len] = '\0';
  n->fence = 0;
  n->cut = n->downgraded = false;
}

const char *dlk_ss_contender_sibling(struct dlk_ss_contender *n,
                                     const char *name) {
  return dlk_ss_node_path(n->store, n->path, n->lock_len, name);
}
