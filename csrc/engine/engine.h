/* The engine of one open store, as the Lua binding sees it: its loop, requests
 * (tickets), leases (holds) and renewal thread.
 *
 * Any thread with a reference may call these functions, unless a comment says
 * otherwise. None calls Lua. Only dlk_engine_drive and dlk_engine_join wait,
 * both bounded. A forked child may call only dlk_engine_forked and
 * dlk_engine_is_ours. */
#ifndef DLK_ENGINE_ENGINE_H
#define DLK_ENGINE_ENGINE_H

#include <stdatomic.h>

#include "store/store.h"

struct dlk_engine;
struct dlk_ticket;
struct dlk_hold;
struct dlk_share;
struct dlk_handle;

/* ---- engine ---- */

/* Copies conf, whose prefix may be NULL, and takes the secret over, even on
 * failure. No I/O, no thread. A NULL name becomes host/pid. */
struct dlk_engine *dlk_engine_new(const struct dlk_store_type *type,
                                  const struct dlk_conf *conf, const char *name,
                                  struct dlk_error *err);
/* Returns true once for each password that the server refused. */
bool dlk_engine_asks(struct dlk_engine *e);
/* Gives another, or says that there is none (NULL). Returns false without
 * memory. */
bool dlk_engine_password(struct dlk_engine *e, const char *password);
/* Returns the new user's number, from 1 on. */
uint32_t dlk_engine_join_in(struct dlk_engine *e);
/* True: the last user left, so the engine is to be closed. */
bool dlk_engine_leave(struct dlk_engine *e);
bool dlk_engine_is_shared(const struct dlk_engine *e);
void dlk_engine_ref(struct dlk_engine *e);
void dlk_engine_unref(struct dlk_engine *e);
/* It was used before a fork, and this is the child. */
bool dlk_engine_forked(const struct dlk_engine *e);
bool dlk_engine_is_ours(const struct dlk_engine *e, struct dlk_error *err);
/* Closing takes a ticket then. */
bool dlk_engine_used(const struct dlk_engine *e);
bool dlk_engine_joined(const struct dlk_engine *e);
/* False: closing began, and all leases are given back. */
bool dlk_engine_is_open(const struct dlk_engine *e, struct dlk_error *err);
const char *dlk_engine_shown(const struct dlk_engine *e);
const char *dlk_engine_prefix(const struct dlk_engine *e);
/* See struct dlk_store_type; false: names have no places. */
bool dlk_engine_tag(const struct dlk_engine *e, const char *key, size_t len,
                    char out[DLK_TAG_MAX]);

/* Runs the loop here until the ticket is done or `slice` ns have passed. */
bool dlk_engine_drive(struct dlk_ticket *t, int64_t slice);

/* Joins the renewal thread, after a ticket that ends the engine or where there
 * can be none. What the store has not ended is left to that thread. Idempotent,
 * for one thread. */
void dlk_engine_join(struct dlk_engine *e);
/* True: the join comes after this close ticket, since no other one waits. */
bool dlk_ticket_ends_engine(const struct dlk_ticket *t);

/* Closes all engines of the process, for `timeout` ns, without a join. */
void dlk_engines_close(int64_t timeout);
void dlk_engines_close_at_exit(void);

/* ---- requests and tickets ---- */

enum dlk_task {
  DLK_TASK_OP,
  DLK_TASK_CLOSE,     /* cancels waits, releases holds, stops the store */
  DLK_TASK_LEAVE,     /* cancels the user's waits, releases its holds */
  DLK_TASK_WAIT_LOST, /* done when `hold` is lost, or at timeout */
  DLK_TASK_GIVE_BACK  /* the engine's own release */
};

struct dlk_request {
  uint32_t user;
  enum dlk_task task;
  enum dlk_op_kind kind;
  const char *key;
  size_t key_len;
  struct dlk_want want;
  bool wait, renew;
  bool provisional; /* ACQUIRE: taking the lease does not give it */
  uint32_t handoffs;
  int64_t timeout, ttl, max_hold, min_hold; /* ns; timeout < 0: io_timeout */
  int64_t withdrawal; /* limit of a cancel; 0: io_timeout */
  const char *owner;
  const char *value;
  size_t value_len;
  const char *text;
  size_t text_len, limit;
  int64_t fence;
  struct dlk_hold *hold;
  size_t argc;
  const char *const *argv;
  const size_t *argv_len;
};

/* Queues a copy. Returns its ticket, one reference for the caller, or NULL.
 * `wake`: no caller will drive, so the renewal thread must. */
struct dlk_ticket *dlk_engine_submit(struct dlk_engine *e,
                                     const struct dlk_request *r, bool wake,
                                     struct dlk_error *err);

bool dlk_ticket_done(const struct dlk_ticket *t);
void dlk_ticket_cancel(struct dlk_ticket *t, enum dlk_code code);
/* Cancels t once `other`, of any engine, is done. Once for each `other`. */
void dlk_ticket_end_with(struct dlk_ticket *t, struct dlk_ticket *other);
/* Releases h to a waiter of this process, at once, or returns false. *others:
 * see dlk_ticket_watch. */
bool dlk_engine_hand_over(struct dlk_hold *h, bool *others);
const struct dlk_error *dlk_ticket_error(const struct dlk_ticket *t);
enum dlk_task dlk_ticket_task(const struct dlk_ticket *t);
enum dlk_op_kind dlk_ticket_kind(const struct dlk_ticket *t);
/* What it is about, or once done, gives; or NULL. */
struct dlk_hold *dlk_ticket_hold(const struct dlk_ticket *t);
bool dlk_ticket_detaches(const struct dlk_ticket *t);
/* Once done; the ticket owns it. */
const struct dlk_value *dlk_ticket_result(const struct dlk_ticket *t);
/* The granted hold, the caller's reference; NULL if it is taken or given
 * back. */
struct dlk_hold *dlk_ticket_take(struct dlk_ticket *t);
/* A detach's string is the caller's; false: the lease was given back. */
bool dlk_ticket_take_text(struct dlk_ticket *t);
/* Cancels the ticket, or gives its untaken lease back; unref does, too. */
void dlk_ticket_abandon(struct dlk_ticket *t);
void dlk_ticket_unref(struct dlk_ticket *t);
void dlk_ticket_ref(struct dlk_ticket *t);
struct dlk_engine *dlk_ticket_engine(const struct dlk_ticket *t);

/* ---- event loops ---- */

/* The renewal thread always drives from now on. */
void dlk_engine_resident(struct dlk_engine *e);
/* Has dlk_engine_completed tell when it is done. Returns its number there, or 0
 * if it is done. *others: the caller's last request ended others, so the caller
 * asks for them. Without `others` a wakeup comes instead. */
uint64_t dlk_ticket_watch(struct dlk_ticket *t, bool *others);
/* The numbers of watched tickets that are done now; fewer than max are all. */
size_t dlk_engine_completed(struct dlk_engine *e, uint64_t *ids, size_t max);
/* An eventfd for completed tickets, or -1. The join closes it. This and what
 * follows is for one thread. */
int dlk_engine_wakeup(struct dlk_engine *e);
/* keep: the eventfd is polled, so a join only signals it. Else it is closed if
 * the join came. */
void dlk_engine_keep_wakeup(struct dlk_engine *e, bool keep);
/* The wakeup as a stream socket, with bytes at least twice a second: the
 * process connects to the path that serve returns, then calls accept. */
const char *dlk_engine_serve(struct dlk_engine *e, struct dlk_error *err);
bool dlk_engine_accept(struct dlk_engine *e);
void dlk_engine_hang_up(struct dlk_engine *e);
void dlk_engine_forget_completed(struct dlk_engine *e);

/* Scopes of requests, by address: see nginx/scope.c. For one thread. */
struct dlk_scopes;
struct dlk_scope;
struct dlk_scopes *dlk_scopes_new(void);
void dlk_scopes_drop(struct dlk_scopes *s);
struct dlk_scope *dlk_scopes_find(const struct dlk_scopes *s, const void *of);
/* Makes a scope, to be ended once; NULL: no memory. */
struct dlk_scope *dlk_scopes_begin(struct dlk_scopes *set, const void *of);
void dlk_scope_end(struct dlk_scope *s);
/* Never the same twice. */
uint64_t dlk_scope_number(const struct dlk_scope *s);
/* Without memory the ticket is cancelled. */
void dlk_scope_add(struct dlk_scope *s, struct dlk_ticket *t);
/* False: no memory, and the handle is given up. */
bool dlk_scope_add_handle(struct dlk_scope *s, const struct dlk_handle *handle);
bool dlk_scope_wants(const struct dlk_ticket *t);
bool dlk_ticket_owned(const struct dlk_ticket *t);

/* ---- holds ---- */

void dlk_hold_ref(struct dlk_hold *h);
void dlk_hold_unref(struct dlk_hold *h);
const struct dlk_lease *dlk_hold_lease(const struct dlk_hold *h);
struct dlk_engine *dlk_hold_engine(const struct dlk_hold *h);
uint64_t dlk_hold_id(const struct dlk_hold *h);
/* ns until our deadline; 0 once lost or given up, for ever. */
int64_t dlk_hold_remaining(struct dlk_hold *h);
int64_t dlk_hold_ttl(const struct dlk_hold *h);
struct dlk_want dlk_hold_want(const struct dlk_hold *h);
/* Has the store hear of revokes at once. */
void dlk_engine_listen(struct dlk_hold *h);
bool dlk_hold_revoked(const struct dlk_hold *h);
/* Not by a release or detach. */
bool dlk_hold_is_lost(struct dlk_hold *h);
/* Why it ended; of one that is lost and has not been told so, its deadline. */
const char *dlk_hold_why(const struct dlk_hold *h);

/* A handle on a hold: the taker of a ticket has the first, a reentrant acquire
 * makes a further one. Its owner, a detach or its scope gives it up once; the
 * hold ends with the last. */
struct dlk_handle {
  struct dlk_hold *hold;
  struct dlk_share *share; /* NULL: the first one */
};

bool dlk_hold_share(struct dlk_hold *h, struct dlk_handle *out);
int dlk_hold_handles(const struct dlk_hold *h);
void dlk_handle_ref(const struct dlk_handle *handle);
void dlk_handle_unref(const struct dlk_handle *handle);
bool dlk_handle_given_up(const struct dlk_handle *handle);
/* True: the last one, so the hold is to be released, or is detached. */
bool dlk_handle_give_up(const struct dlk_handle *handle);
bool dlk_hold_renews(const struct dlk_hold *h);
int64_t dlk_hold_min_left(const struct dlk_hold *h);
/* The caller may count on the hold. Taking one that is not provisional does
 * this. A hold not given is released without min_hold. */
void dlk_hold_give(struct dlk_hold *h);
/* The release that follows ignores min_hold. */
void dlk_hold_take_back(struct dlk_hold *h);
void dlk_hold_release_later(struct dlk_hold *h);

/* The last handle was collected. True: a given hold, which lasts to its
 * deadline without renewal. Else it is to be released. */
bool dlk_hold_collected(struct dlk_hold *h);

bool dlk_engine_is_portable(const struct dlk_engine *e, struct dlk_error *err);

/* ---- counters ---- */

#define DLK_STATS_BUCKETS 18

struct dlk_histogram {
  _Atomic uint64_t buckets[DLK_STATS_BUCKETS], sum_us;
};

/* Begun less ended is held now. */
struct dlk_stats {
  _Atomic uint64_t acquires[DLK_CODES];
  _Atomic uint64_t begun, ended, lost, renewed, renew_failed, handed_over;
  struct dlk_histogram wait, hold; /* of granted acquires; of holds */
};

const struct dlk_stats *dlk_engine_stats(const struct dlk_engine *e);
/* In seconds; negative: none. */
double dlk_stats_bound(int bucket);

/* ---- events for Lua's thread ---- */

struct dlk_event {
  struct dlk_event *next;
  uint64_t lease; /* its hold's id, or 0 */
  char kind[16];
  const char *text; /* behind the key */
  size_t key_len;   /* 0 without a hold */
  char key[]; /* the hold's: Lua knows ids only of leases with callbacks */
};

/* The caller frees each. */
struct dlk_event *dlk_engine_events(struct dlk_engine *e);
/* Also when a password is wanted. */
bool dlk_engine_has_events(const struct dlk_engine *e);

#endif
