/* The engine as the Lua binding sees it: one per open store. It owns the
 * loop, the operations under way (tickets), the leases held (holds) and the
 * renewal thread, and knows the store only by store/store.h.
 *
 * Every function here may be called from any thread that owns a reference,
 * unless it says otherwise; none calls Lua. Only dlk_engine_drive and
 * dlk_engine_join wait, both bounded. After a fork the child must call nothing
 * but dlk_engine_forked and dlk_engine_is_ours, and leaks what it inherited:
 * threads do not survive a fork. */
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

/* conf: its prefix as it was given, or NULL. Checks it with the store and
 * copies it, but for the secret, which it takes over even when it fails; no
 * I/O, no thread. name NULL: host/pid, found at first use. NULL and err on
 * failure. */
struct dlk_engine *dlk_engine_new(const struct dlk_store_type *type,
                                  const struct dlk_conf *conf, const char *name,
                                  struct dlk_error *err);
/* True, once for each password that the server refused: the caller has to ask
 * the program for another, and to say the answer. */
bool dlk_engine_asks(struct dlk_engine *e);
/* That answer, from the next connection on. NULL: there is no other. False: out
 * of memory. */
bool dlk_engine_password(struct dlk_engine *e, const char *password);
/* One more uses it: another number for each, from 1 on. */
uint32_t dlk_engine_join_in(struct dlk_engine *e);
/* One less. True: it was the last one, so the engine is to be closed. */
bool dlk_engine_leave(struct dlk_engine *e);
bool dlk_engine_is_shared(const struct dlk_engine *e);
void dlk_engine_ref(struct dlk_engine *e);
void dlk_engine_unref(struct dlk_engine *e);
/* It was used before a fork() and this is the child. */
bool dlk_engine_forked(const struct dlk_engine *e);
/* The opposite; false comes with err. */
bool dlk_engine_is_ours(const struct dlk_engine *e, struct dlk_error *err);
/* It has done something: closing it takes a ticket. */
bool dlk_engine_used(const struct dlk_engine *e);
/* The join came: no wakeup comes, and no request is taken any more. */
bool dlk_engine_joined(const struct dlk_engine *e);
/* False: closing began, all leases are given back; err says so. */
bool dlk_engine_is_open(const struct dlk_engine *e, struct dlk_error *err);
const char *dlk_engine_shown(const struct dlk_engine *e);
/* As it is used, also where none was given. */
const char *dlk_engine_prefix(const struct dlk_engine *e);
/* What places a name beside the lock on key; false: the store has no places. */
bool dlk_engine_tag(const struct dlk_engine *e, const char *key, size_t len,
                    char out[DLK_TAG_MAX]);

/* Runs the loop of the ticket's engine on this thread until the ticket is
 * done or `slice` ns have passed. True when it is done. */
bool dlk_engine_drive(struct dlk_ticket *t, int64_t slice);

/* After a close ticket is done that ends the engine, or where there can be
 * none: joins the renewal thread and frees the loop. What the store could not
 * end in time (a look-up in the resolver) the renewal thread sees to, and frees
 * all then. Idempotent, by one thread. */
void dlk_engine_join(struct dlk_engine *e);
/* Whether the ticket is one of a close, done, after which comes the join;
 * another close may have more time and still wait. */
bool dlk_ticket_ends_engine(const struct dlk_ticket *t);

/* Closes all engines in use of the process, and waits so many ns at most. None
 * is joined. */
void dlk_engines_close(int64_t timeout);
/* Does so when the process exits, from now on. */
void dlk_engines_close_at_exit(void);

/* ---- requests and tickets ---- */

enum dlk_task {
  DLK_TASK_OP,        /* what `kind` says */
  DLK_TASK_CLOSE,     /* cancel waits, release holds, stop the store */
  DLK_TASK_LEAVE,     /* cancel the user's waits, release its holds */
  DLK_TASK_WAIT_LOST, /* done when `hold` is lost, or at timeout */
  DLK_TASK_GIVE_BACK  /* the engine's own: a release that nobody waits for */
};

struct dlk_request {
  uint32_t user; /* of those who share the engine: whose it is */
  enum dlk_task task;
  enum dlk_op_kind kind;
  const char *key;
  size_t key_len;
  struct dlk_want want;
  bool wait, renew;
  bool provisional; /* ACQUIRE: who takes the lease is not yet given it */
  uint32_t handoffs;
  int64_t timeout, ttl, max_hold, min_hold; /* ns; timeout < 0: io_timeout */
  int64_t withdrawal; /* so long may a cancel take; 0: io_timeout */
  const char *owner;  /* NULL: the engine's name */
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

/* Queues a request (everything is copied) and returns its ticket with one
 * reference for the caller; NULL and err on failure. wake: nobody is going to
 * drive for it, so the renewal thread must. */
struct dlk_ticket *dlk_engine_submit(struct dlk_engine *e,
                                     const struct dlk_request *r, bool wake,
                                     struct dlk_error *err);

bool dlk_ticket_done(const struct dlk_ticket *t);
/* Asks for an early end with this code (cancelled). */
void dlk_ticket_cancel(struct dlk_ticket *t, enum dlk_code code);
/* t is cancelled once `other`, of any engine, is done (at once, if it is). Not
 * more than once for an `other`. */
void dlk_ticket_end_with(struct dlk_ticket *t, struct dlk_ticket *other);
/* Releases a hold without a ticket, by giving it to the next waiter of this
 * process; false: that cannot be done at once. *others as dlk_ticket_watch. */
bool dlk_engine_hand_over(struct dlk_hold *h, bool *others);
/* Once done: the error, or NULL when all went well. */
const struct dlk_error *dlk_ticket_error(const struct dlk_ticket *t);
enum dlk_task dlk_ticket_task(const struct dlk_ticket *t);
enum dlk_op_kind dlk_ticket_kind(const struct dlk_ticket *t);
/* What it asks something of, or once done, gives; NULL: neither. */
struct dlk_hold *dlk_ticket_hold(const struct dlk_ticket *t);
bool dlk_ticket_detaches(const struct dlk_ticket *t);
/* Once done: the store's result, or NULL. Owned by the ticket. */
const struct dlk_value *dlk_ticket_result(const struct dlk_ticket *t);
/* Once an acquire or attach is done: the hold, with a reference that is the
 * caller's from now on; NULL if it was taken before. */
struct dlk_hold *dlk_ticket_take(struct dlk_ticket *t);
/* Once a detach is done, and its caller has the string: true, or false when the
 * lease was given back, since nobody seemed to want it. */
bool dlk_ticket_take_text(struct dlk_ticket *t);
/* Nobody will take it: an acquire or a detach is cancelled, or what it gave is
 * given back. unref does the same and drops the caller's reference. */
void dlk_ticket_abandon(struct dlk_ticket *t);
void dlk_ticket_unref(struct dlk_ticket *t);
void dlk_ticket_ref(struct dlk_ticket *t);
struct dlk_engine *dlk_ticket_engine(const struct dlk_ticket *t);

/* ---- event loops ---- */

/* From now on the renewal thread drives all the time: for callers that must
 * not. A drive then only waits until the ticket is done. Before or after first
 * use. */
void dlk_engine_resident(struct dlk_engine *e);
/* Has dlk_engine_completed tell when the ticket is done. Returns the ticket's
 * number there, the same at every call; 0 if it is done already. *others is set
 * if the caller's last request ended other tickets: then he has to ask for what
 * is completed, since no wakeup is sent for these. NULL: one is sent. */
uint64_t dlk_ticket_watch(struct dlk_ticket *t, bool *others);
/* The numbers of watched tickets that got done since, at most max; fewer than
 * max means that there are no more. Never waits. */
size_t dlk_engine_completed(struct dlk_engine *e, uint64_t *ids, size_t max);
/* An eventfd that is readable when tickets may be completed; -1 when none can
 * be had. It is the engine's, which closes it at the join. Like the functions
 * that follow it is for one thread. */
int dlk_engine_wakeup(struct dlk_engine *e);
/* keep: from now on somebody polls the eventfd, so a join signals it and leaves
 * it open. Not: nobody polls it any more, and it is closed now if the join
 * came. */
void dlk_engine_keep_wakeup(struct dlk_engine *e, bool keep);
/* The wakeup as a stream socket, on which bytes arrive when tickets may be
 * completed, and at least twice a second: connect to the path that serve gives,
 * then accept, from the same process. NULL and err, or false, on failure.
 * hang_up ends it, whatever its state. */
const char *dlk_engine_serve(struct dlk_engine *e, struct dlk_error *err);
bool dlk_engine_accept(struct dlk_engine *e);
void dlk_engine_hang_up(struct dlk_engine *e);
/* Drops what dlk_engine_completed would give: nobody will ask. */
void dlk_engine_forget_completed(struct dlk_engine *e);

/* What ends with something outside: see scope.c. One thread only. */
struct dlk_scope;
struct dlk_scope *dlk_scope_new(void);     /* NULL: out of memory */
void dlk_scope_begin(struct dlk_scope *s); /* anew, after its end */
void dlk_scope_free(struct dlk_scope *s);  /* ends it */
/* The ticket, and the lease it gives, end with s. False when s has ended: the
 * ticket is then cancelled. */
bool dlk_scope_add(struct dlk_scope *s, struct dlk_ticket *t);
/* The same for a further handle on a hold; false: it is given up. */
bool dlk_scope_add_handle(struct dlk_scope *s, const struct dlk_handle *handle);
/* Whether a scope would have anything to end of it. */
bool dlk_scope_wants(const struct dlk_ticket *t);
/* A scope ends it, or has: nobody else has to see to its end. */
bool dlk_ticket_owned(const struct dlk_ticket *t);
void dlk_scope_end(struct dlk_scope *s);
bool dlk_scope_ended(const struct dlk_scope *s);

/* Scopes by the address of what they end with: see scopes.c. */
struct dlk_scopes;
struct dlk_member;
struct dlk_scopes *dlk_scopes_new(void); /* NULL: out of memory */
void dlk_scopes_drop(struct dlk_scopes *s);
/* Its scope; NULL if it has none, or none yet. */
struct dlk_member *dlk_scopes_find(const struct dlk_scopes *s, const void *of);
/* A scope for what has none: to be ended exactly once. NULL: no memory. */
struct dlk_member *dlk_scopes_begin(struct dlk_scopes *s, const void *of);
void dlk_member_end(struct dlk_member *m);
struct dlk_scope *dlk_member_scope(const struct dlk_member *m);
/* Another one for each; from 1 on. */
uint64_t dlk_member_number(const struct dlk_member *m);

/* ---- holds ---- */

void dlk_hold_ref(struct dlk_hold *h);
void dlk_hold_unref(struct dlk_hold *h);
const struct dlk_lease *dlk_hold_lease(const struct dlk_hold *h);
struct dlk_engine *dlk_hold_engine(const struct dlk_hold *h);
uint64_t dlk_hold_id(const struct dlk_hold *h);
/* ns until our own deadline, 0 once lost or given up. Once 0 always 0. */
int64_t dlk_hold_remaining(struct dlk_hold *h);
int64_t dlk_hold_ttl(const struct dlk_hold *h);
struct dlk_want dlk_hold_want(const struct dlk_hold *h);
/* Has its store hear as soon as it can that somebody asks for it; nobody waits
 * for that. */
void dlk_engine_listen(struct dlk_hold *h);
bool dlk_hold_revoked(const struct dlk_hold *h);
/* It was held and ended by itself: nobody released or detached it. */
bool dlk_hold_is_lost(struct dlk_hold *h);

/* A handle on a hold: the first one is that of whoever took it from its ticket,
 * a reentrant acquire makes further ones, which share it. Each is given up
 * once, by whoever comes first (its owner, a detach, the end of its scope), and
 * the hold is to end with the last of them. */
struct dlk_handle {
  struct dlk_hold *hold;
  struct dlk_share *share; /* NULL: the first one */
};

/* The first handle of a hold that was just taken. */
struct dlk_handle dlk_hold_first(struct dlk_hold *h);
/* Another one; it and its hold are referenced. False: out of memory. */
bool dlk_hold_share(struct dlk_hold *h, struct dlk_handle *out);
int dlk_hold_handles(const struct dlk_hold *h);
void dlk_handle_ref(const struct dlk_handle *handle);
void dlk_handle_unref(const struct dlk_handle *handle);
bool dlk_handle_given_up(const struct dlk_handle *handle);
/* True: it was the last, so the hold is to be released, or is detached. */
bool dlk_handle_give_up(const struct dlk_handle *handle);
bool dlk_hold_renews(const struct dlk_hold *h);
/* ns until min_hold has passed, at least 0. */
int64_t dlk_hold_min_left(const struct dlk_hold *h);
/* Somebody may count on it from now on. Of an acquire that is not provisional
 * its take says so. A hold that ends before that is released without its
 * min_hold. */
void dlk_hold_give(struct dlk_hold *h);
/* Nobody counts on its min_hold any more: the release that follows ends it. */
void dlk_hold_take_back(struct dlk_hold *h);
/* Releases in the background; never waits, never fails. */
void dlk_hold_release_later(struct dlk_hold *h);

/* Its last handle was given up by the collector. True: it is held and somebody
 * counts on it, so it goes on without renewal, to its deadline. False: to be
 * released. */
bool dlk_hold_collected(struct dlk_hold *h);

/* Its leases can be detached and attached; false comes with err. */
bool dlk_engine_is_portable(const struct dlk_engine *e, struct dlk_error *err);

/* ---- counters ---- */

#define DLK_STATS_BUCKETS 18

struct dlk_histogram {
  _Atomic uint64_t buckets[DLK_STATS_BUCKETS], sum_us;
};

/* They only grow; begun less ended is what is held now. Atomics are not
 * constant, so a reader loads them one by one. */
struct dlk_stats {
  _Atomic uint64_t acquires[DLK_CODES]; /* that came to this end */
  _Atomic uint64_t begun, ended, lost, renewed, renew_failed, handed_over;
  struct dlk_histogram wait, hold; /* of acquires that were granted; of holds */
};

const struct dlk_stats *dlk_engine_stats(const struct dlk_engine *e);
/* The upper bound of a bucket in seconds; negative: none. */
double dlk_stats_bound(int bucket);

/* ---- events: what Lua's thread must hear of ---- */

struct dlk_event {
  struct dlk_event *next;
  uint64_t lease; /* the id of its hold; 0: none */
  char kind[16];
  const char *text; /* all of what was said: behind the key */
  size_t key_len;   /* 0 without a hold */
  char key[];       /* the hold's: Lua knows only those with callbacks by id */
};

/* The events since the last call, oldest first, to be freed one by one with
 * free(); NULL (and cheap) when there is none. */
struct dlk_event *dlk_engine_events(struct dlk_engine *e);
/* There are some, or the program is to be asked for a password. */
bool dlk_engine_has_events(const struct dlk_engine *e);

#endif
