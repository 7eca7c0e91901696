/* The chain of confirms in a session: the driver's rule says what an answer
 * proves. Confirms name each member's node in turn.
 *
 * I1. Holds end at the horizon: by a timer, and before a later horizon is
 *     published. An answer after the old horizon loses them first, so none is
 *     revived.
 * I2. The host knows the nearest horizon of all sessions with a hold.
 * I3. The chain rests without members. A grant wakes it: an attached hold comes
 *     to a session that was idle, with no create before it. */
#include "store/session/life/session.h"

/* The next member goes to the end of the line. */
static struct dlk_ss_member *turn(struct dlk_ss_session *s) {
  struct dlk_list *l = s->nodes.next;
  dlk_list_remove(l);
  dlk_list_append(&s->nodes, l);
  return DLK_CONTAINER(l, struct dlk_ss_member, link);
}

void dlk_ss_session_tell(struct dlk_ss_session *s, enum dlk_ss_use use,
                         void (*tell)(struct dlk_ss_member *m)) {
  for (size_t left = s->node_count;
       left > 0 && s->uses[use] > 0 && s->node_count > 0; left--) {
    struct dlk_ss_member *m = turn(s);
    if (m->use == use)
      tell(m);
  }
}

void dlk_ss_publish(struct dlk_ss_sessions *ss) {
  int64_t until = DLK_FOREVER;
  for (struct dlk_list *l = ss->all.next; l != &ss->all; l = l->next) {
    struct dlk_ss_session *s = DLK_CONTAINER(l, struct dlk_ss_session, link);
    if (s->uses[DLK_SS_USE_HELD] > 0 && s->proof.horizon < until)
      until = s->proof.horizon;
  }
  if (until != DLK_FOREVER)
    ss->host->horizon(ss->host, until);
}

static void tell_expired(struct dlk_ss_member *m) {
  m->type->expired(m);
}

static void lose_holds(struct dlk_ss_session *s) {
  dlk_ss_session_tell(s, DLK_SS_USE_HELD, tell_expired);
}

void dlk_ss_horizon_fired(struct dlk_timer *timer, int64_t now) {
  struct dlk_ss_session *s =
      DLK_CONTAINER(timer, struct dlk_ss_session, horizon_timer);
  struct dlk_host *host = s->sessions->host;
  if (s->uses[DLK_SS_USE_HELD] == 0)
    return;
  if (now >= s->proof.horizon)
    lose_holds(s);
  else
    host->timer_set(host, timer, s->proof.horizon);
}

void dlk_ss_session_holds(struct dlk_ss_session *s) {
  struct dlk_host *host = s->sessions->host;
  if (!s->horizon_timer.node.queued)
    host->timer_set(host, &s->horizon_timer, s->proof.horizon);
  dlk_ss_publish(s->sessions);
  dlk_ss_session_tick(s);
}

void dlk_ss_session_freed(struct dlk_ss_session *s) {
  if (s->uses[DLK_SS_USE_HELD] == 0)
    dlk_ss_publish(s->sessions);
}

static void tell_proven(struct dlk_ss_member *m) {
  m->type->proven(m);
}

void dlk_ss_session_confirmed(struct dlk_ss_session *s, uint32_t token,
                              bool ok) {
  if (token == 0 || token != s->proof.flying)
    return;
  int64_t now = dlk_ss_session_now(s);
  if (ok && s->uses[DLK_SS_USE_HELD] > 0 && now >= s->proof.horizon)
    lose_holds(s);
  if (ok)
    s->sessions->host->timer_clear(s->sessions->host, &s->timer);
  else
    s->confirm_not_before = now + s->timeout / 16;
  if (dlk_ss_proof_answered(&s->proof, token, ok, now)) {
    if (s->uses[DLK_SS_USE_HELD] > 0)
      dlk_ss_publish(s->sessions);
    dlk_ss_session_tell(s, DLK_SS_USE_READY, tell_proven);
  }
  dlk_ss_session_tick(s);
}

void dlk_ss_session_unname(struct dlk_ss_member *m) {
  if (m->session && m->session->confirm_member == m)
    m->session->confirm_member = NULL;
}

/* An answer from before a cut may arrive while another confirm is under way: it
 * says nothing about that one's node. */
static void on_confirmed(void *who, uint32_t token,
                         const struct dlk_ss_reply *r) {
  struct dlk_ss_session *s = who;
  if (token == s->confirm_named) {
    struct dlk_ss_member *m = s->confirm_member;
    s->confirm_member = NULL;
    if (r->rc == DLK_SS_NONODE && m)
      m->type->gone(m);
    else if (r->rc == DLK_SS_UNBOUND && m)
      m->type->unbound(m);
  }
  dlk_ss_session_confirmed(s, token, r->rc == DLK_SS_OK);
}

/* In turn, so that each node is seen in time. */
static void send_confirm(struct dlk_ss_session *s, int64_t now) {
  struct dlk_ss_member *m = NULL;
  for (size_t left = s->node_count; left > 0 && !m; left--) {
    m = turn(s);
    if (m->use < DLK_SS_USE_STANDING || m->use > DLK_SS_USE_HELD)
      m = NULL;
  }
  s->confirm_not_before = now + s->timeout / 16;
  if (!m)
    return;
  uint32_t token = dlk_ss_proof_sent(&s->proof, DLK_SS_PROVE, now);
  struct dlk_ss_request r = {.verb = DLK_SS_PROVE, .path = m->type->path(m)};
  s->confirm_member = m;
  s->confirm_named = token;
  if (dlk_ss_send(s, &r, on_confirmed, s, token))
    return;
  s->confirm_member = NULL;
  dlk_ss_proof_answered(&s->proof, token, false, now);
}

static bool wants_confirms(const struct dlk_ss_session *s) {
  return s->state == DLK_SS_CONNECTED && dlk_ss_session_live(s) > 0;
}

/* Waiters that take turns write soon, and that counts, too: a session without
 * holds leaves them a moment. One granted meanwhile has enough left: three late
 * confirms still leave a sixth of the timeout. */
static int64_t confirm_at(const struct dlk_ss_session *s) {
  bool urgent = s->uses[DLK_SS_USE_HELD] + s->uses[DLK_SS_USE_READY] > 0;
  int64_t patience = urgent ? 0 : s->timeout / 128;
  int64_t due = dlk_time_add(dlk_ss_proof_due(&s->proof), patience);
  return due > s->confirm_not_before ? due : s->confirm_not_before;
}

void dlk_ss_session_tick(struct dlk_ss_session *s) {
  struct dlk_host *host = s->sessions->host;
  if (!wants_confirms(s))
    return;
  int64_t at = confirm_at(s);
  if (at == DLK_FOREVER)
    return;
  struct dlk_heap_node *node = &s->confirm_timer.node;
  if (!node->queued || node->at > at)
    host->timer_set(host, &s->confirm_timer, at);
}

void dlk_ss_confirm_fired(struct dlk_timer *timer, int64_t now) {
  struct dlk_ss_session *s =
      DLK_CONTAINER(timer, struct dlk_ss_session, confirm_timer);
  if (wants_confirms(s) && confirm_at(s) <= now)
    send_confirm(s, now);
  dlk_ss_session_tick(s);
}
