/* A contender that holds.
 *
 * A hold lasts as long as its node, and its node as long as the session: so
 * renewing is local, it asks only whether the horizon is still ahead and the
 * node not known to be gone. A hold that lives for more than a moment watches
 * its own node, so an admin's break or a request to give it up is heard at
 * once; one released before that costs no read at all. A renewal that comes
 * before the watch waits for it: so a break is seen at the latest at the next
 * renewal. A watch costs more memory than the hold itself (its path is kept
 * three times), so only the first hundreds of a session have one; the node of
 * each other is read at its renewals, a few at a time.
 *
 * min_hold: a release before its time is answered at once and the node stays
 * until then, without a lease. It ends with the session: closing the store,
 * or the death of the process, frees it at once. */
#include "store/zookeeper/internal.h"

#include <stdlib.h>

#define FRESH_FOR (200 * DLK_MS)
#define OWN_WATCHES 250
#define LOOKS_AT_ONCE 64

static void forget_lease(struct dlk_zk_node *n) {
  if (n->lease)
    *dlk_zk_node_of(n->lease) = NULL;
  n->lease = NULL;
}

/* ---- grant ---- */

static void rest(struct dlk_zk_node *n, int64_t now) {
  struct dlk_host *host = n->store->host;
  struct dlk_zk_session *s = n->session;
  n->rest_until = dlk_time_add(now, n->lease->min_hold);
  dlk_list_append(&s->fresh, &n->fresh);
  if (!s->fresh_timer.node.queued)
    host->timer_set(host, &s->fresh_timer, now + FRESH_FOR);
}

void dlk_zk_grant(struct dlk_zk_node *n) {
  struct dlk_zk_store *st = n->store;
  struct dlk_zk_session *s = n->session;
  int64_t now = dlk_zk_now(st);
  if (n->czxid >= DLK_ZK_FENCE_MAX) {
    dlk_zk_leave(n, DLK_UNSUPPORTED);
    return;
  }
  if (now >= s->confirm.horizon) {
    dlk_zk_node_step(n, DLK_ZK_READY);
    dlk_zk_session_tick(s);
    return;
  }
  struct dlk_op *op = n->op;
  free(n->head);
  n->head = NULL;
  n->op = NULL;
  n->lease->fence = n->czxid;
  n->lease->sent = n->sent;
  *dlk_zk_node_of(n->lease) = n;
  dlk_zk_node_step(n, DLK_ZK_HELD);
  rest(n, now);
  dlk_zk_session_holds(s);
  st->host->done(st->host, op, NULL);
}

static void end_extends(struct dlk_zk_store *st, struct dlk_list *extends,
                        enum dlk_code code) {
  while (!dlk_list_empty(extends)) {
    struct dlk_zk_op_data *d =
        DLK_CONTAINER(extends->next, struct dlk_zk_op_data, extends);
    dlk_list_remove(&d->extends);
    if (code == DLK_OK)
      d->op->lease->sent = dlk_zk_now(st);
    dlk_zk_done(st, d->op, code);
  }
}

static void answer_renewal(struct dlk_zk_node *n, bool ok) {
  struct dlk_host *host = n->store->host;
  bool renewing = n->renewing;
  n->renewing = false;
  if (renewing && ok)
    host->renewed(host, n->lease, dlk_zk_now(n->store));
  else if (renewing)
    host->renew_failed(host, n->lease);
}

/* The renewal and the extensions that wait for it. */
static void answer_all(struct dlk_zk_node *n, enum dlk_code code) {
  struct dlk_zk_store *st = n->store;
  struct dlk_list extends;
  dlk_list_take(&n->extends, &extends);
  answer_renewal(n, code == DLK_OK);
  end_extends(st, &extends, code);
}

/* What its node says. */
static void own_read(struct dlk_zk_node *n, bool revoked) {
  struct dlk_zk_store *st = n->store;
  if (n->step != DLK_ZK_HELD)
    return;
  bool tell = revoked && !n->revoked;
  n->revoked |= revoked;
  struct dlk_lease *lease = n->lease;
  answer_all(n, DLK_OK);
  if (tell)
    st->host->revoked(st->host, lease);
}

void dlk_zk_own_armed(struct dlk_zk_node *n, bool revoked) {
  n->watched = true;
  own_read(n, revoked);
}

/* ---- its own node: watched, or read when asked for ---- */

/* Neither watched nor read: it is gone, or to be tried again, with the next
 * renewal or soon. */
static void own_missed(struct dlk_zk_node *n, enum dlk_zk_rc rc) {
  struct dlk_host *host = n->store->host;
  struct dlk_zk_session *s = n->session;
  if (n->step != DLK_ZK_HELD)
    return;
  if (rc == DLK_ZK_NONODE) {
    dlk_zk_lose(n, "its node was deleted", true);
    return;
  }
  dlk_list_remove(&n->fresh);
  dlk_list_append(&s->fresh, &n->fresh);
  if (!s->fresh_timer.node.queued)
    host->timer_set(host, &s->fresh_timer, dlk_zk_now(n->store) + FRESH_FOR);
  if (rc == DLK_ZK_CUT)
    answer_renewal(n, false); /* extensions wait for the next connection */
  else
    answer_all(n, DLK_UNAVAILABLE);
}

static void on_looked(void *who, uint32_t tag, const struct dlk_zk_reply *r);

static void look_on(struct dlk_zk_session *s) {
  while (!dlk_list_empty(&s->looks) && s->looking < LOOKS_AT_ONCE) {
    struct dlk_list *l = s->looks.next;
    struct dlk_zk_node *n = DLK_CONTAINER(l, struct dlk_zk_node, fresh);
    struct dlk_zk_request r = {.verb = DLK_ZK_GET, .path = n->path};
    dlk_list_remove(l);
    if (s->state != DLK_ZK_CONNECTED)
      own_missed(n, DLK_ZK_CUT);
    else if (dlk_zk_node_send(n, &r, on_looked))
      s->looking++;
    else
      own_missed(n, DLK_ZK_MEMORY);
  }
}

/* One that holds belongs to its session for good. */
static void on_looked(void *who, uint32_t tag, const struct dlk_zk_reply *r) {
  struct dlk_zk_node *n = who;
  struct dlk_zk_session *s = n->session;
  (void)tag;
  s->looking--;
  struct dlk_zk_data d;
  if (dlk_zk_node_answered(n)) {
    dlk_zk_data_parse(r->data, r->len, &d);
    if (r->rc == DLK_ZK_OK)
      own_read(n, d.revoked);
    else
      own_missed(n, r->rc);
  }
  look_on(s);
}

static void watch_own(struct dlk_zk_node *n) {
  struct dlk_zk_session *s = n->session;
  if (!dlk_list_empty(&n->refs))
    return;
  if (s->own_watches < OWN_WATCHES) {
    if (!dlk_zk_watch_add(n, n->path, true, false))
      own_missed(n, DLK_ZK_MEMORY);
  } else if (n->renewing || !dlk_list_empty(&n->extends)) {
    dlk_list_remove(&n->fresh);
    dlk_list_append(&s->looks, &n->fresh);
    look_on(s);
  }
}

void dlk_zk_own_over(struct dlk_zk_node *n, enum dlk_zk_rc rc) {
  n->watched = false;
  if (rc != DLK_ZK_OK)
    own_missed(n, rc);
  else if (n->step == DLK_ZK_HELD)
    watch_own(n);
}

/* Holds stand in the order of their grants. */
void dlk_zk_fresh_fired(struct dlk_timer *timer, int64_t now) {
  struct dlk_zk_session *s =
      DLK_CONTAINER(timer, struct dlk_zk_session, fresh_timer);
  struct dlk_host *host = s->store->host;
  if (s->state != DLK_ZK_CONNECTED || dlk_list_empty(&s->fresh))
    return;
  struct dlk_list todo;
  dlk_list_init(&todo);
  while (!dlk_list_empty(&s->fresh)) {
    struct dlk_list *l = s->fresh.next;
    struct dlk_zk_node *n = DLK_CONTAINER(l, struct dlk_zk_node, fresh);
    if (n->sent + FRESH_FOR > now)
      break;
    dlk_list_remove(l);
    dlk_list_append(&todo, l);
  }
  while (!dlk_list_empty(&todo)) {
    struct dlk_list *l = todo.next;
    dlk_list_remove(l);
    watch_own(DLK_CONTAINER(l, struct dlk_zk_node, fresh));
  }
  if (!dlk_list_empty(&s->fresh))
    host->timer_set(host, timer, now + FRESH_FOR);
}

/* ---- loss ---- */

/* is_gone: the node is known not to exist; else it is deleted behind. */
void dlk_zk_lose(struct dlk_zk_node *n, const char *why, bool is_gone) {
  struct dlk_zk_store *st = n->store;
  struct dlk_zk_session *s = n->session;
  struct dlk_lease *lease = n->lease;
  struct dlk_list extends;
  dlk_list_take(&n->extends, &extends);
  n->renewing = false; /* `lost` is the answer to a renewal as well */
  forget_lease(n);
  if (is_gone)
    dlk_zk_finish(n, DLK_OK);
  else
    dlk_zk_leave(n, DLK_LOST);
  end_extends(st, &extends, DLK_LOST);
  if (lease)
    st->host->lost(st->host, lease, why);
  dlk_zk_session_freed(s);
}

/* True when the hold stands; a hold whose time is over is lost here. */
static bool stands(struct dlk_zk_store *st, struct dlk_lease *lease) {
  struct dlk_zk_node *n = *dlk_zk_node_of(lease);
  if (!n)
    return false;
  if (dlk_zk_now(st) < n->session->confirm.horizon)
    return true;
  dlk_zk_lose(n, "the servers did not confirm the session in time", false);
  return false;
}

/* ---- renew, extend, release ---- */

/* An extend that came while there was no connection waits for it. */
void dlk_zk_hold_resume(struct dlk_zk_node *n) {
  if (dlk_list_empty(&n->extends) || n->session->state != DLK_ZK_CONNECTED)
    return;
  dlk_list_remove(&n->fresh);
  watch_own(n);
}

void dlk_zk_renew(void *store, struct dlk_lease *const *leases, size_t count) {
  struct dlk_zk_store *st = store;
  for (size_t i = 0; i < count; i++) {
    struct dlk_lease *lease = leases[i];
    struct dlk_zk_node *n = *dlk_zk_node_of(lease);
    if (!n) {
      st->host->lost(st->host, lease, "its node is gone");
    } else if (stands(st, lease)) {
      if (n->watched) {
        st->host->renewed(st->host, lease, dlk_zk_now(st));
      } else if (n->session->state != DLK_ZK_CONNECTED) {
        st->host->renew_failed(st->host, lease);
      } else {
        n->renewing = true;
        dlk_list_remove(&n->fresh);
        watch_own(n);
      }
    }
  }
}

void dlk_zk_extend(struct dlk_zk_store *st, struct dlk_op *op) {
  struct dlk_zk_node *n = *dlk_zk_node_of(op->lease);
  if (!stands(st, op->lease)) {
    dlk_zk_done(st, op, DLK_LOST);
  } else if (n->watched) {
    op->lease->sent = dlk_zk_now(st);
    dlk_zk_done(st, op, DLK_OK);
  } else {
    struct dlk_zk_op_data *d = op->data;
    bool first = dlk_list_empty(&n->extends);
    d->node = n;
    d->op = op;
    dlk_list_append(&n->extends, &d->extends);
    if (first)
      dlk_zk_hold_resume(n);
  }
}

static void start_rest(struct dlk_zk_node *n) {
  struct dlk_host *host = n->store->host;
  dlk_zk_watch_drop(n);
  dlk_list_remove(&n->fresh);
  dlk_zk_node_step(n, DLK_ZK_RESTING);
  dlk_zk_count_busy(n);
  host->timer_set(host, &n->timer, n->rest_until);
}

void dlk_zk_release(struct dlk_zk_store *st, struct dlk_op *op) {
  struct dlk_zk_node *n = *dlk_zk_node_of(op->lease);
  if (!stands(st, op->lease)) {
    dlk_zk_done(st, op, DLK_LOST);
    return;
  }
  answer_all(n, DLK_LOST);
  forget_lease(n);
  if (dlk_zk_now(st) < n->rest_until) {
    start_rest(n);
    dlk_zk_session_freed(n->session);
    dlk_zk_done(st, op, DLK_OK);
    return;
  }
  n->op = op;
  ((struct dlk_zk_op_data *)op->data)->node = n;
  dlk_zk_leave(n, DLK_OK);
  dlk_zk_session_freed(n->session);
}
