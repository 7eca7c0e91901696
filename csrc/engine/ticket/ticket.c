/* A ticket: one request from submission to result.
 *
 * I1  It completes once, in dlk_request_finish.
 * I2  The store's part (the op) ends once, in dlk_request_done. If that comes
 *     later than `withdrawal` after a cancel, the caller is told before.
 * I3  A grant is given back if its ticket was told otherwise, or is abandoned.
 * I4  A detach gave the handle up. If it fails, or its string is not taken, the
 *     lease is given back (request.c).
 * I5  `fate` decides between taking and giving back. An abandon posts, so the
 *     later of the post and the end sees the other.
 *
 * References: the caller's, the engine's (until caller and store are done), a
 * queued cancel's, the listener's, each scope's, and a ticket's that ends with
 * it. */
#include "engine/ticket/ticket.h"

#include <string.h>

#include "loop/owner.h"

static bool makes_hold(const struct dlk_request *r) {
  return r->task == DLK_TASK_OP &&
         (r->kind == DLK_OP_ACQUIRE || r->kind == DLK_OP_ATTACH);
}

/* A hold has the key. */
static size_t own_key(const struct dlk_request *r) {
  return r->hold || makes_hold(r) ? 0 : r->key_len;
}

static size_t arguments_size(const struct dlk_request *r) {
  size_t n = r->argc * (sizeof *r->argv + sizeof *r->argv_len);
  for (size_t i = 0; i < r->argc; i++)
    n += r->argv_len[i];
  return n + own_key(r) + r->text_len + 1;
}

static void copy_arguments(struct dlk_ticket *t, const struct dlk_request *r,
                           char *at) {
  const char **argv = (const char **)(void *)at;
  at += r->argc * sizeof *argv;
  size_t *lens = (size_t *)(void *)at;
  at += r->argc * sizeof *lens;
  for (size_t i = 0; i < r->argc; i++) {
    argv[i] = at;
    lens[i] = r->argv_len[i];
    memcpy(at, r->argv[i], lens[i]);
    at += lens[i];
  }
  t->op.argc = r->argc;
  t->op.argv = argv;
  t->op.argv_len = lens;
  t->op.key = at;
  t->op.key_len = own_key(r);
  if (t->op.key_len)
    memcpy(at, r->key, t->op.key_len);
  at += t->op.key_len;
  if (r->text) {
    memcpy(at, r->text, r->text_len);
    t->op.text = at;
    t->op.text_len = r->text_len;
  }
}

bool dlk_ticket_makes_hold(const struct dlk_ticket *t) {
  return dlk_ticket_is(t, DLK_OP_ACQUIRE) || dlk_ticket_is(t, DLK_OP_ATTACH);
}

bool dlk_ticket_detaches(const struct dlk_ticket *t) {
  return dlk_ticket_is(t, DLK_OP_DETACH);
}

bool dlk_ticket_gives(const struct dlk_ticket *t) {
  return dlk_ticket_makes_hold(t) || dlk_ticket_detaches(t);
}

/* Only here a ticket gets a hold. */
static void use_hold(struct dlk_ticket *t, struct dlk_hold *h) {
  t->hold = h;
  t->op.lease = &h->lease;
  t->op.key = h->lease.key;
  t->op.key_len = h->lease.key_len;
}

bool dlk_ticket_new_candidate(struct dlk_ticket *t) {
  struct dlk_hold *old = t->hold;
  struct dlk_hold *h = dlk_hold_again(old);
  if (!h)
    return false;
  use_hold(t, h);
  dlk_hold_unref(old);
  memset(t->op.data, 0, t->engine->type->op_size);
  t->op.ending = DLK_OK;
  t->op.holder[0] = '\0';
  return true;
}

static void free_memory(struct dlk_ticket *t) {
  struct dlk_engine *e = t->engine;
  struct dlk_hold *h = t->hold;
  dlk_pool_give(&e->spare_tickets, t, t->size);
  if (h)
    dlk_hold_unref(h);
  else
    dlk_engine_unref(e);
}

struct dlk_ticket *dlk_ticket_new(struct dlk_engine *e,
                                  const struct dlk_request *r) {
  size_t data = dlk_pool_aligned(sizeof(struct dlk_ticket));
  size_t args = data + dlk_pool_aligned(e->type->op_size);
  size_t size = args + arguments_size(r);
  struct dlk_ticket *t = dlk_pool_take(&e->spare_tickets, size);
  if (!t)
    return NULL;
  t->size = size;
  t->engine = e;
  atomic_init(&t->refs, 2);
  atomic_init(&t->wanted, DLK_OK);
  t->task = r->task;
  t->user = r->hold ? r->hold->user : r->user;
  dlk_list_init(&t->link);
  t->op.kind = r->kind;
  t->op.wait = r->wait;
  t->op.renew = r->renew;
  t->op.ttl = r->ttl;
  t->op.fence = r->fence;
  t->op.limit = r->limit;
  t->op.started = dlk_clock_now();
  t->op.deadline =
      dlk_time_add(t->op.started, r->timeout < 0 ? e->io_timeout : r->timeout);
  t->withdrawal = r->withdrawal > 0 ? r->withdrawal : e->io_timeout;
  t->op.data = (char *)t + data;
  copy_arguments(t, r, (char *)t + args);
  struct dlk_hold *h = r->hold;
  if (makes_hold(r))
    h = dlk_hold_new(e, r);
  else if (h)
    dlk_hold_ref(h);
  if (h)
    use_hold(t, h);
  else
    dlk_engine_ref(e);
  if (h || !makes_hold(r))
    return t;
  free_memory(t);
  return NULL;
}

void dlk_ticket_ref(struct dlk_ticket *t) {
  dlk_count_add(&t->refs);
}

void dlk_ticket_drop_ref(struct dlk_ticket *t) {
  if (!dlk_count_drop(&t->refs))
    return;
  dlk_value_free(t->op.result);
  dlk_error_drop(&t->error);
  free_memory(t);
}

/* ---- the caller's side ---- */

bool dlk_ticket_done(const struct dlk_ticket *t) {
  return atomic_load_explicit(&t->state, memory_order_acquire) >=
         DLK_TICKET_DONE;
}

const struct dlk_error *dlk_ticket_error(const struct dlk_ticket *t) {
  return t->error;
}

enum dlk_task dlk_ticket_task(const struct dlk_ticket *t) {
  return t->task;
}

enum dlk_op_kind dlk_ticket_kind(const struct dlk_ticket *t) {
  return t->op.kind;
}

struct dlk_hold *dlk_ticket_hold(const struct dlk_ticket *t) {
  return t->hold;
}

const struct dlk_value *dlk_ticket_result(const struct dlk_ticket *t) {
  return t->op.result;
}

struct dlk_engine *dlk_ticket_engine(const struct dlk_ticket *t) {
  return t->engine;
}

const char *dlk_ticket_word(const struct dlk_ticket *t) {
  static const char *const tasks[] = {[DLK_TASK_CLOSE] = "close",
                                      [DLK_TASK_LEAVE] = "leave",
                                      [DLK_TASK_WAIT_LOST] = "wait_lost",
                                      [DLK_TASK_GIVE_BACK] = "give back"};
  static const char *const kinds[] = {
      [DLK_OP_ACQUIRE] = "acquire",     [DLK_OP_RELEASE] = "release",
      [DLK_OP_EXTEND] = "extend",       [DLK_OP_PING] = "ping",
      [DLK_OP_LOCKED] = "locked",       [DLK_OP_DETACH] = "detach",
      [DLK_OP_PROLONG] = "prolong",     [DLK_OP_ATTACH] = "attach",
      [DLK_OP_INSPECT] = "inspect",     [DLK_OP_LIST] = "list",
      [DLK_OP_BREAK] = "break",         [DLK_OP_REVOKE] = "revoke",
      [DLK_OP_GUARD] = "guard",         [DLK_OP_CHANGE] = "change",
      [DLK_OP_DOWNGRADE] = "downgrade", [DLK_OP_LISTEN] = "listen",
      [DLK_OP_PUBLISH] = "publish"};
  return t->task == DLK_TASK_OP ? kinds[t->op.kind] : tasks[t->task];
}

bool dlk_ticket_take_text(struct dlk_ticket *t) {
  return dlk_ticket_decide(t, DLK_FATE_OPEN, DLK_FATE_TAKEN);
}

struct dlk_hold *dlk_ticket_take(struct dlk_ticket *t) {
  if (!dlk_ticket_makes_hold(t) || dlk_ticket_error(t) ||
      !dlk_ticket_take_text(t))
    return NULL;
  if (!t->hold->asked.provisional)
    dlk_hold_give(t->hold);
  dlk_hold_ref(t->hold);
  return t->hold;
}

static void post_cancel(struct dlk_ticket *t) {
  dlk_ticket_ref(t);
  if (!dlk_owner_post(&t->engine->loop, &t->cancel, true))
    dlk_ticket_drop_ref(t);
}

void dlk_ticket_cancel(struct dlk_ticket *t, enum dlk_code code) {
  int none = DLK_OK;
  if (dlk_ticket_done(t))
    return;
  if (atomic_compare_exchange_strong(&t->wanted, &none, (int)code))
    post_cancel(t);
}

void dlk_ticket_end_with(struct dlk_ticket *t, struct dlk_ticket *other) {
  dlk_ticket_ref(t);
  atomic_store(&other->ends, t);
  if (atomic_load(&other->state) >= DLK_TICKET_DONE)
    dlk_ticket_end_linked(other);
}

/* Run by either side; the first one cancels. */
void dlk_ticket_end_linked(struct dlk_ticket *other) {
  if (!atomic_load(&other->ends))
    return;
  struct dlk_ticket *t = atomic_exchange(&other->ends, NULL);
  if (!t)
    return;
  dlk_ticket_cancel(t, DLK_CANCELLED);
  dlk_ticket_drop_ref(t);
}

static bool leaves_something(const struct dlk_ticket *t) {
  bool gives = dlk_ticket_gives(t);
  if (dlk_ticket_done(t))
    return gives && !dlk_ticket_error(t);
  return gives || t->task == DLK_TASK_WAIT_LOST || t->task == DLK_TASK_CLOSE ||
         dlk_ticket_is(t, DLK_OP_CHANGE);
}

/* A release may have been left to its caller to run the loop for
 * (dlk_owner_leave_to_caller). */
void dlk_ticket_abandon(struct dlk_ticket *t) {
  struct dlk_loop *l = &t->engine->loop;
  if (leaves_something(t)) {
    if (dlk_ticket_decide(t, DLK_FATE_OPEN, DLK_FATE_ABANDONED))
      post_cancel(t);
  } else if (!dlk_ticket_done(t) && !atomic_load(&l->resident)) {
    dlk_owner_look(l);
  }
}

void dlk_ticket_unref(struct dlk_ticket *t) {
  dlk_ticket_abandon(t);
  dlk_ticket_drop_ref(t);
}
