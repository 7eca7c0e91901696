/* A contender that holds.
 *
 * H1. A hold lasts as long as its node, its node as long as the session:
 *     renewing is local.
 * H2. A hold watches its node FRESH_FOR after its grant, so a break or revoke
 *     is heard at once; a shorter one costs no read. An earlier renewal waits
 *     for the watch, so it sees a break.
 * H3. A watch costs more memory than its hold. The first OWN_WATCHES of a
 *     session have one; others are read at renewals, READS_AT_ONCE at a time.
 * H4. An extension asks the servers by a write that changes nothing: after an
 *     answered break it must fail, though a read may lag or the event be late.
 *     Each has its own check, sent after the EXTEND; a lost one is repeated.
 * H5. min_hold: a grant is told once the stand-in exists (standin.c), which
 *     outlives an early release, unless nobody was told or the holder gives it
 *     up.
 * H6. A hold whose node is bound to another session, or to none, is lost and
 *     its node deleted: it would outlive us. */
#include "store/session/recipe/contender.h"

#include <stdlib.h>

#include "store/session/format/data.h"

#define FRESH_FOR (200 * DLK_MS)
#define OWN_WATCHES 250
#define READS_AT_ONCE 64

static struct dlk_ss_holds *holds_of(const struct dlk_ss_session *s) {
  return s->data;
}

/* In the order of grants. */
static void watch_later(struct dlk_ss_contender *n, int64_t now) {
  struct dlk_host *host = n->store->host;
  struct dlk_ss_holds *h = holds_of(n->member.session);
  dlk_ss_contender_step_out(n);
  dlk_list_append(&h->fresh, &n->line);
  if (!h->fresh_timer.node.queued)
    host->timer_set(host, &h->fresh_timer, now + FRESH_FOR);
}

static void on_kept(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  struct dlk_ss_contender *n = who;
  if (!dlk_ss_contender_answered(n) || tag != n->tag ||
      n->step != DLK_SS_KEEPING)
    return;
  enum dlk_ss_meaning meaning = dlk_ss_meaning(DLK_SS_FOR_OWN, r->rc);
  if (meaning == DLK_SS_ANSWERED || r->rc == DLK_SS_EXISTS) {
    n->kept = true;
    dlk_ss_grant(n, n->sent);
  } else if (meaning == DLK_SS_MISSING) {
    dlk_ss_contender_vanished(n);
  } else if (meaning == DLK_SS_REPEAT) {
    dlk_ss_contender_stall(n);
  } else {
    dlk_ss_op_heard(n->op, r);
    dlk_ss_leave(n, dlk_ss_code(r->rc));
  }
}

static void keep(struct dlk_ss_contender *n, int64_t sent) {
  struct dlk_ss_session *s = n->member.session;
  bool known = n->standin || dlk_ss_clock_known(n->store);
  n->sent = sent;
  dlk_ss_contender_step(n, DLK_SS_KEEPING);
  if (!known && dlk_ss_session_connected(s))
    dlk_ss_clock_ask(s, n->path, n->lock_len);
  if (!known || !dlk_ss_session_connected(s) ||
      !dlk_ss_standin_make(n, on_kept))
    dlk_ss_contender_stall(n);
}

void dlk_ss_grant(struct dlk_ss_contender *n, int64_t sent) {
  struct dlk_ss_store *st = n->store;
  struct dlk_ss_session *s = n->member.session;
  int64_t now = dlk_ss_now(st);
  if (n->fence >= DLK_FENCE_END) {
    dlk_ss_leave(n, DLK_UNSUPPORTED);
    return;
  }
  if (now >= s->proof.horizon) {
    dlk_ss_contender_step(n, DLK_SS_READY);
    dlk_ss_session_tick(s);
    return;
  }
  if (n->lease->min_hold > 0 && !n->kept) {
    keep(n, sent);
    return;
  }
  struct dlk_op *op = n->op;
  free(n->head);
  n->head = NULL;
  dlk_ss_contender_serve(n, NULL);
  n->lease->fence = n->fence;
  DLK_TRACE(now, st->driver->room, "grant", n->lease->key, n->lease->key_len,
            "fence %lld, token ..%.4s", (long long)n->lease->fence,
            n->guid + DLK_SS_GUID - 4);
  n->sent = sent;
  n->lease->sent = n->kept && n->kept_from < sent ? n->kept_from : sent;
  dlk_ss_contender_hold(n);
  dlk_ss_contender_step(n, DLK_SS_HELD);
  n->rests = n->kept;
  n->rest_until = dlk_time_add(now, n->lease->min_hold);
  st->host->timer_clear(st->host, &n->timer);
  watch_later(n, now);
  dlk_ss_session_holds(s);
  st->host->done(st->host, op, NULL);
}

static void end_extends(struct dlk_ss_store *st, struct dlk_list *extends,
                        enum dlk_code code) {
  while (!dlk_list_empty(extends)) {
    struct dlk_ss_op_data *d =
        DLK_CONTAINER(extends->next, struct dlk_ss_op_data, extends);
    dlk_list_remove(&d->extends);
    dlk_ss_done(st, d->op, code);
  }
}

static void answer_renewal(struct dlk_ss_contender *n, bool ok) {
  struct dlk_host *host = n->store->host;
  bool renewing = n->renewing;
  n->renewing = false;
  if (renewing && ok)
    host->renewed(host, n->lease, dlk_ss_now(n->store));
  else if (renewing)
    host->renew_failed(host, n->lease);
}

static void own_read(struct dlk_ss_contender *n, bool revoked, int64_t owner) {
  struct dlk_ss_store *st = n->store;
  if (n->step != DLK_SS_HELD)
    return;
  if (owner != n->member.session->id && !n->detaching) {
    dlk_ss_contender_unbound(n);
    return;
  }
  bool tell = revoked && !n->revoked;
  n->revoked |= revoked;
  struct dlk_lease *lease = n->lease;
  answer_renewal(n, true);
  if (tell)
    st->host->revoked(st->host, lease);
}

void dlk_ss_own_armed(struct dlk_ss_contender *n,
                      const struct dlk_ss_sight *sight) {
  n->watched = true;
  own_read(n, sight->revoked, sight->owner);
}

/* No watch and no answer: the node is gone, or tried again soon. */
static void own_missed(struct dlk_ss_contender *n, enum dlk_ss_rc rc) {
  if (n->step != DLK_SS_HELD)
    return;
  enum dlk_ss_meaning meaning = dlk_ss_meaning(DLK_SS_FOR_OWN, rc);
  if (meaning == DLK_SS_MISSING) {
    dlk_ss_lose(n, "its entry was deleted, or taken from its session", true);
    return;
  }
  watch_later(n, dlk_ss_now(n->store));
  answer_renewal(n, false);
}

static void on_own_read(void *who, uint32_t tag, const struct dlk_ss_reply *r);

static void read_on(struct dlk_ss_session *s) {
  struct dlk_ss_holds *h = holds_of(s);
  while (!dlk_list_empty(&h->reads) && h->reading < READS_AT_ONCE) {
    struct dlk_list *l = h->reads.next;
    struct dlk_ss_contender *n =
        DLK_CONTAINER(l, struct dlk_ss_contender, line);
    struct dlk_ss_request r = {.verb = DLK_SS_READ, .path = n->path};
    dlk_list_remove(l);
    if (s->state != DLK_SS_CONNECTED)
      own_missed(n, DLK_SS_CUT);
    else if (dlk_ss_contender_send(n, &r, on_own_read))
      h->reading++;
    else
      own_missed(n, DLK_SS_MEMORY);
  }
}

static void on_own_read(void *who, uint32_t tag, const struct dlk_ss_reply *r) {
  struct dlk_ss_contender *n = who;
  struct dlk_ss_session *s = n->member.session;
  (void)tag;
  holds_of(s)->reading--;
  struct dlk_ss_data d;
  if (dlk_ss_contender_answered(n)) {
    dlk_ss_data_parse(r->data, r->len, &d);
    if (r->rc == DLK_SS_OK)
      own_read(n, d.revoked, r->stat.owner);
    else
      own_missed(n, r->rc);
  }
  read_on(s);
}

static void watch_own(struct dlk_ss_contender *n) {
  struct dlk_ss_session *s = n->member.session;
  if (!dlk_list_empty(&n->member.watches))
    return;
  if (s->own_watches < OWN_WATCHES) {
    if (!dlk_ss_watch_add(&n->member, n->path, true, false))
      own_missed(n, DLK_SS_MEMORY);
  } else if (n->renewing) {
    dlk_ss_contender_step_out(n);
    dlk_list_append(&holds_of(s)->reads, &n->line);
    read_on(s);
  }
}

void dlk_ss_own_over(struct dlk_ss_contender *n, enum dlk_ss_rc rc) {
  n->watched = false;
  if (rc != DLK_SS_OK)
    own_missed(n, rc);
  else if (n->step == DLK_SS_HELD)
    watch_own(n);
}

static void fresh_fired(struct dlk_timer *timer, int64_t now) {
  struct dlk_ss_holds *h =
      DLK_CONTAINER(timer, struct dlk_ss_holds, fresh_timer);
  struct dlk_ss_session *s = h->session;
  struct dlk_host *host = s->sessions->host;
  if (s->state != DLK_SS_CONNECTED || dlk_list_empty(&h->fresh))
    return;
  struct dlk_list todo;
  dlk_list_init(&todo);
  while (!dlk_list_empty(&h->fresh)) {
    struct dlk_list *l = h->fresh.next;
    struct dlk_ss_contender *n =
        DLK_CONTAINER(l, struct dlk_ss_contender, line);
    if (n->sent + FRESH_FOR > now)
      break;
    dlk_list_remove(l);
    dlk_list_append(&todo, l);
  }
  while (!dlk_list_empty(&todo)) {
    struct dlk_list *l = todo.next;
    dlk_list_remove(l);
    watch_own(DLK_CONTAINER(l, struct dlk_ss_contender, line));
  }
  if (!dlk_list_empty(&h->fresh))
    host->timer_set(host, timer, now + FRESH_FOR);
}

void dlk_ss_holds_opened(struct dlk_ss_session *s) {
  struct dlk_ss_holds *h = holds_of(s);
  h->session = s;
  h->fresh_timer.fire = fresh_fired;
  dlk_list_init(&h->fresh);
  dlk_list_init(&h->reads);
  dlk_map_init(&h->lists, s->watches.seed);
}

void dlk_ss_holds_connected(struct dlk_ss_session *s) {
  struct dlk_ss_holds *h = holds_of(s);
  struct dlk_host *host = s->sessions->host;
  if (!dlk_list_empty(&h->fresh))
    host->timer_set(host, &h->fresh_timer, dlk_ss_session_now(s));
}

/* is_gone: the node does not exist; else it is deleted. */
void dlk_ss_lose(struct dlk_ss_contender *n, const char *why, bool is_gone) {
  struct dlk_ss_store *st = n->store;
  struct dlk_ss_session *s = n->member.session;
  struct dlk_lease *lease = n->lease;
  struct dlk_list extends;
  dlk_list_take(&n->extends, &extends);
  n->renewing = false; /* `lost` also answers a renewal */
  dlk_ss_contender_unhold(n);
  if (is_gone)
    dlk_ss_finish(n, DLK_OK);
  else
    dlk_ss_leave(n, DLK_LOST);
  end_extends(st, &extends, DLK_LOST);
  if (lease)
    st->host->lost(st->host, lease, why);
  dlk_ss_session_freed(s);
}

void dlk_ss_hold_expired(struct dlk_ss_contender *n) {
  dlk_ss_lose(n, "the servers did not confirm the session in time", false);
}

/* False also loses a hold whose time is over. */
static bool stands(struct dlk_ss_store *st, struct dlk_lease *lease) {
  struct dlk_ss_contender *n = dlk_ss_holder(lease);
  if (!n)
    return false;
  if (dlk_ss_now(st) < n->member.session->proof.horizon)
    return true;
  dlk_ss_hold_expired(n);
  return false;
}

void dlk_ss_renew(void *store, struct dlk_lease *const *leases, size_t count) {
  struct dlk_ss_store *st = store;
  for (size_t i = 0; i < count; i++) {
    struct dlk_lease *lease = leases[i];
    struct dlk_ss_contender *n = dlk_ss_holder(lease);
    if (!n) {
      st->host->lost(st->host, lease, "its node is gone");
    } else if (stands(st, lease)) {
      if (n->watched) {
        st->host->renewed(st->host, lease, dlk_ss_now(st));
      } else if (!dlk_ss_session_connected(n->member.session)) {
        st->host->renew_failed(st->host, lease);
      } else {
        n->renewing = true;
        dlk_ss_contender_step_out(n);
        watch_own(n);
      }
    }
  }
}

static void on_extend_checked(void *who, uint32_t tag,
                              const struct dlk_ss_reply *r) {
  struct dlk_ss_contender *n = who;
  if (!dlk_ss_contender_answered(n))
    return;
  struct dlk_op *op = NULL;
  for (struct dlk_list *l = n->extends.next; l != &n->extends; l = l->next) {
    struct dlk_ss_op_data *d = DLK_CONTAINER(l, struct dlk_ss_op_data, extends);
    if (d->check == tag)
      op = d->op;
  }
  enum dlk_ss_meaning meaning = dlk_ss_meaning(DLK_SS_FOR_OWN, r->rc);
  if (meaning == DLK_SS_MISSING && n->step == DLK_SS_HELD) {
    dlk_ss_lose(n, "its entry was deleted, or taken from its session", true);
  } else if (r->rc == DLK_SS_UNBOUND && n->step == DLK_SS_HELD) {
    dlk_ss_contender_unbound(n);
  } else if (op && meaning == DLK_SS_REPEAT) {
    dlk_ss_op_data(op)->check = 0;
    dlk_ss_contender_stall(n);
  } else if (op) {
    bool ok = meaning == DLK_SS_ANSWERED;
    if (ok)
      op->lease->sent = r->sent;
    dlk_list_remove(&dlk_ss_op_data(op)->extends);
    dlk_ss_op_heard(op, r);
    dlk_ss_done(n->store, op, ok ? DLK_OK : dlk_ss_code(r->rc));
  }
}

/* For each extension without a check under way. */
void dlk_ss_hold_resume(struct dlk_ss_contender *n) {
  if (!dlk_ss_session_connected(n->member.session))
    return;
  for (struct dlk_list *l = n->extends.next; l != &n->extends; l = l->next) {
    struct dlk_ss_op_data *d = DLK_CONTAINER(l, struct dlk_ss_op_data, extends);
    if (d->check != 0)
      continue;
    struct dlk_ss_request r = {.verb = DLK_SS_PROVE, .path = n->path};
    if (!dlk_ss_contender_send(n, &r, on_extend_checked)) {
      dlk_ss_contender_stall(n);
      return;
    }
    d->check = n->tag;
  }
}

void dlk_ss_extend(struct dlk_ss_store *st, struct dlk_op *op) {
  struct dlk_ss_contender *n = dlk_ss_holder(op->lease);
  if (!stands(st, op->lease)) {
    dlk_ss_done(st, op, DLK_LOST);
    return;
  }
  struct dlk_ss_op_data *d = dlk_ss_op_data(op);
  d->node = n;
  d->op = op;
  dlk_list_append(&n->extends, &d->extends);
  dlk_ss_hold_resume(n);
}

void dlk_ss_release(struct dlk_ss_store *st, struct dlk_op *op) {
  struct dlk_ss_contender *n = dlk_ss_holder(op->lease);
  if (!stands(st, op->lease)) {
    dlk_ss_done(st, op, DLK_LOST);
    return;
  }
  struct dlk_list extends;
  dlk_list_take(&n->extends, &extends);
  answer_renewal(n, false);
  end_extends(st, &extends, DLK_LOST);
  dlk_ss_contender_unhold(n);
  dlk_ss_contender_serve(n, op);
  n->rests = n->kept && !op->unused && dlk_ss_now(st) < n->rest_until;
  dlk_ss_leave(n, DLK_OK);
  dlk_ss_session_freed(n->member.session);
}
