/* What the engine's files share. Fields marked [lock] are touched under
 * e->lock, atomics by anybody; everything else, unless constant or said
 * otherwise, only by whoever owns the loop. */
#ifndef DLK_ENGINE_INTERNAL_H
#define DLK_ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "core/count.h"
#include "core/list.h"
#include "core/map.h"
#include "core/pool.h"
#include "engine/completion.h"
#include "engine/engine.h"
#include "loop/life.h"
#include "loop/owner.h"
#include "loop/socket.h"

enum dlk_close_state { /* of an engine; see close.c */
                       DLK_CLOSE_OPEN,
                       DLK_CLOSE_ENDING,
                       DLK_CLOSE_DRAINING,
                       DLK_CLOSE_STOPPING,
                       DLK_CLOSE_STOPPED
};

enum dlk_hold_state {
  DLK_HOLD_CANDIDATE, /* asked for */
  DLK_HOLD_HELD,
  DLK_HOLD_RELEASING, /* a release is under way */
  DLK_HOLD_RELEASED,
  DLK_HOLD_LOST,
  DLK_HOLD_DETACHED /* given up to whoever has the string */
};

struct dlk_hold {
  struct dlk_lease lease; /* first: the store hands back &lease */
  struct dlk_engine *engine;
  atomic_int refs, state;
  atomic_int handles; /* not given up; the last one stays counted */
  atomic_uint turn;   /* how often its first handle was given up */
  atomic_bool revoked;
  atomic_bool expired;  /* somebody saw the deadline pass: never held again */
  atomic_bool dropping; /* release_later was called */
  bool owed;            /* its release could not be allocated: try again */
  bool detached;        /* in the registry of transfer.c */
  bool renew, renewing;
  bool renews;    /* as asked for; constant */
  int ops;        /* requests on it that the store has */
  int extending;  /* EXTENDs that the store has; it is not renewed then */
  int64_t cut_to; /* held no longer than that: one of them may
                     have been for less than is left */
  /* handoff.c */
  struct dlk_gate *gate; /* it is the gate's holder */
  bool hands_on : 1;     /* as asked for: it may go from hand to hand */
  bool unfair : 1;       /* likewise, before those who came earlier elsewhere */
  bool handed : 1;       /* it came so, and was not renewed since */
  uint16_t jumps;        /* how often it went before others */
  uint32_t size;         /* of its memory, the store's bytes and texts too */
  _Atomic int64_t deadline, ttl; /* ttl: for readers outside the role */
  _Atomic uint64_t want;         /* units << 32 | cap, likewise */
  const char *_Atomic ended;
  int64_t max_hold, max_end; /* max_end: constant once granted */
  int64_t granted_at;
  struct dlk_heap_node
      due;              /* in e->loop.timers.batch: next renewal, or the end */
  struct dlk_list link; /* in e->holds while HELD */
  struct dlk_list waiters;  /* wait_lost tickets */
  struct dlk_list detaches; /* tickets, until `ops` is 0 */
  struct dlk_post drop;     /* release_later */
  uint64_t id;              /* unique in the process */
  /* Another store of this process that attached it and now hears of it, with
   * a reference; NULL: its own engine does. */
  struct dlk_engine *listener;
  struct dlk_list adopted; /* [lock of the listener] */
};

struct dlk_ticket {
  struct dlk_op op; /* first: the store hands back &op */
  struct dlk_engine *engine;
  struct dlk_engine *listener; /* is told that it is done; often the same */
  atomic_int refs;
  atomic_int done; /* 0 or 1 */
  atomic_bool taken;
  bool submitted;   /* the store has the op */
  bool settled;     /* told and ended: the engine let go */
  bool internal;    /* nobody waits for it */
  bool ends_engine; /* CLOSE, done: whoever takes it joins */
  atomic_bool abandoned;
  bool owned;        /* Lua's thread: a scope ends what it gives */
  atomic_int wanted; /* code of a requested cancel */
  struct dlk_ticket *_Atomic ends; /* to be cancelled when this one is done */
  struct dlk_request request;
  struct dlk_hold *hold;
  struct dlk_post start, cancel;
  struct dlk_timer timer;
  struct dlk_list link; /* in e->ops, or a hold's waiters, detaches */
  struct dlk_completion completion; /* of the listener */
  struct dlk_gate *gate;         /* local_queue.c: parked there, or its head */
  const struct dlk_error *error; /* kept; NULL: none */
  size_t size;                   /* of its memory, arguments and all */
};

/* local_queue.c: who of this engine waits for a key, and who might hand it
 * over. */
struct dlk_gate {
  struct dlk_map_node node;
  struct dlk_list all;     /* in e->gates */
  struct dlk_list parked;  /* tickets */
  uint32_t count;          /* of these */
  struct dlk_ticket *head; /* the one that the store has */
  struct dlk_hold *holder;
  struct dlk_post next;
  struct dlk_engine *engine;
  char key[];
};

struct dlk_engine {
  struct dlk_host host; /* first: what the store is handed */
  const struct dlk_store_type *type;
  void *store;
  void *conf_memory;
  const char *shown, *given_name, *prefix; /* prefix: NULL, or as given */
  int64_t io_timeout;
  char name[128];
  atomic_int refs;
  atomic_uint fork_stamp; /* 0: never used */
  atomic_bool closing;    /* no request is taken */
  _Atomic int64_t horizon;
  atomic_bool has_news;

  struct dlk_loop loop;
  struct dlk_socket socket;
  struct dlk_completions completions;

  pthread_mutex_t lock;
  struct dlk_news *news_first, *news_last; /* [lock] */
  size_t news_count;                       /* [lock] */
  struct dlk_list adopted; /* [lock] held leases of others that we attached */
  struct dlk_timer horizon_timer;
  struct dlk_list ops, holds;
  size_t busy;
  bool store_used;
  /* close.c */
  enum dlk_close_state close_state;
  struct dlk_list closers; /* tickets that wait for the end */
  struct dlk_post stop_post, left_post;
  atomic_bool stopped; /* the store was; everything is told */
  atomic_bool left;    /* to the renewal thread, which has a reference */
  struct dlk_stats stats;
  struct dlk_pool spare_tickets, spare_holds;
  struct dlk_list gates; /* local_queue.c */
  struct dlk_map gate_map;
  atomic_bool listens; /* it attached, or may have, leases of another engine */
  unsigned char entropy[256];
  size_t entropy_left;
};

#define DLK_NEWS_MAX 1024
/* A lease that was handed over and is held for so long is renewed: for the
 * rest of its ttl, and for what the store shows of its holder. */
#define DLK_HANDED_RENEW (50 * DLK_MS)

/* open.c */
unsigned dlk_fork_stamp(void);
bool dlk_engine_accepts(struct dlk_engine *e, const struct dlk_request *r,
                        struct dlk_error *err);
bool dlk_engine_first_use(struct dlk_engine *e, struct dlk_error *err);
/* Says so; false. */
bool dlk_engine_say_closed(const struct dlk_engine *e, struct dlk_error *err);

/* store_host.c */
void dlk_host_init(struct dlk_host *host);

/* stats.c */
void dlk_stats_finished(struct dlk_ticket *t);
void dlk_stats_held(struct dlk_ticket *t, int64_t now);
void dlk_stats_ended(struct dlk_hold *h, int64_t now, bool lost);
void dlk_stats_renewed(struct dlk_engine *e, bool ok);
void dlk_stats_handed_over(struct dlk_engine *e);

/* local_queue.c: the local queue */
void dlk_local_init(struct dlk_engine *e);
void dlk_local_clear(struct dlk_engine *e);
/* True: it was parked, and will be submitted when its turn comes. Where there
 * is no gate it becomes the head of one, but if it is only to wait `behind`
 * others. */
bool dlk_local_park(struct dlk_ticket *t, bool behind);
/* The store is done with it: the next one's turn. */
void dlk_local_done(struct dlk_ticket *t);
/* It ended while it was parked. */
void dlk_local_gone(struct dlk_ticket *t);
void dlk_local_end_all(struct dlk_engine *e);
/* The first of the parked, or NULL. */
struct dlk_ticket *dlk_local_first(const struct dlk_gate *g);
/* The gate of a key, if there is one; with `make` there is, but for lack of
 * memory. */
struct dlk_gate *dlk_local_gate(struct dlk_engine *e, const char *key,
                                size_t key_len, bool make);
/* Sees to it that somebody waits in the store's queue, if that is due. */
void dlk_local_look(struct dlk_gate *g);

/* handoff.c: from hand to hand in this process */
/* A ticket that was parked goes to the store now; behind it are so many. */
void dlk_handoff_asks(struct dlk_ticket *t, uint32_t parked);
/* So many are parked now behind the one that went to the store for h. */
void dlk_handoff_parked(struct dlk_hold *h, uint32_t parked);
/* The hold was granted; its ticket waited at g, if that is not NULL. */
void dlk_handoff_held(struct dlk_hold *h, struct dlk_gate *g);
/* It is held no longer. */
void dlk_handoff_left(struct dlk_hold *h);
/* What was asked for it ended so: it may not be fit for handing over now. */
void dlk_handoff_after(struct dlk_hold *h, enum dlk_op_kind kind,
                       enum dlk_code code);
/* Whether this one, parked, may wait for the gate's holder to hand over to it
 * rather than in the store's queue. */
bool dlk_handoff_expects(const struct dlk_gate *g, const struct dlk_ticket *t);
/* The hold is to be released, and is held. True: it was handed over instead,
 * and is released. */
bool dlk_handoff_pass(struct dlk_hold *h);

/* watch.c */
/* t is done: whoever waits for it is told. */
void dlk_ticket_tell(struct dlk_ticket *t);
/* The listener is woken, or by *others, as dlk_ticket_watch. */
void dlk_engine_take_others(struct dlk_engine *e, bool *others);
/* Nobody will ask for what is ready. */
void dlk_completions_left(struct dlk_engine *e);

/* ticket.c: memory and the caller's side */
struct dlk_ticket *dlk_ticket_new(struct dlk_engine *e,
                                  const struct dlk_request *r);
bool dlk_ticket_makes_hold(const struct dlk_ticket *t);
/* What comes of it has to be taken: a lease, or the string of a detach. */
bool dlk_ticket_gives(const struct dlk_ticket *t);
void dlk_ticket_drop_ref(struct dlk_ticket *t);
/* t is done: so is the one that ends with it. */
void dlk_ticket_end_linked(struct dlk_ticket *t);
/* A new candidate in place of the ticket's hold; false: out of memory. */
bool dlk_ticket_new_candidate(struct dlk_ticket *t);

/* request.c: the engine's side */
void dlk_ticket_start(struct dlk_post *post);
/* Does what needs neither the store nor the loop; false: nothing was done. */
bool dlk_ticket_start_here(struct dlk_ticket *t);
void dlk_ticket_run_cancel(struct dlk_post *post);
/* Hands it to the store. */
void dlk_ticket_submit(struct dlk_ticket *t);
/* An acquire was granted: by the store, or by a hand-over. */
void dlk_ticket_granted(struct dlk_ticket *t, int64_t now);
void dlk_ticket_timed_out(struct dlk_timer *timer, int64_t now);
/* Ends it early; the op is cancelled if the store has it. */
void dlk_ticket_end(struct dlk_ticket *t, enum dlk_code code);
void dlk_ticket_finish(struct dlk_ticket *t, const struct dlk_error *err);
void dlk_ticket_finish_code(struct dlk_ticket *t, enum dlk_code code);
/* The store was stopped and will not end this op any more. */
void dlk_ticket_forget(struct dlk_ticket *t);
void dlk_ticket_op_done(struct dlk_host *host, struct dlk_op *op,
                        const struct dlk_error *err);
/* Starts a release nobody waits for; false when out of memory. */
bool dlk_ticket_release_background(struct dlk_hold *h);

/* lease.c */
struct dlk_hold *dlk_hold_new(struct dlk_engine *e,
                              const struct dlk_request *r);
/* The store granted the ticket's: HELD from now on. False when less than
 * `least` ns of the ttl are left: too little to be of use. */
bool dlk_hold_granted(struct dlk_ticket *t, int64_t now, int64_t least);
void dlk_hold_extended(struct dlk_hold *h, int64_t ttl);
/* Around an EXTEND: before the store has it, and when it is over (of a HELD
 * one; done: it took effect). */
void dlk_hold_extending(struct dlk_hold *h, int64_t ttl);
void dlk_hold_extend_over(struct dlk_hold *h, int64_t ttl, bool done);
/* Ends a HELD one; why: a constant. */
void dlk_hold_leave(struct dlk_hold *h, int64_t now, enum dlk_hold_state state,
                    const char *why);
/* Gives it back to the store in the background, whatever it was. */
void dlk_hold_give_back(struct dlk_hold *h);
/* Looks at the clock: true while our own deadline has not passed; ends it
 * otherwise. */
bool dlk_hold_check(struct dlk_hold *h, int64_t now);
void dlk_hold_schedule(struct dlk_hold *h);
void dlk_hold_set_want(struct dlk_hold *h, struct dlk_want want);

/* renewal.c */
/* Renews a hold at once: it was granted on a claim. */
void dlk_hold_confirm(struct dlk_hold *h);
void dlk_holds_run(struct dlk_loop *l, int64_t now);
/* Releases that are owed are not made: the store has stopped. */
void dlk_holds_forget_owed(struct dlk_engine *e);
void dlk_horizon_passed(struct dlk_timer *timer, int64_t now);
void dlk_hold_renewed(struct dlk_host *host, struct dlk_lease *lease,
                      int64_t sent);
void dlk_hold_renew_failed(struct dlk_host *host, struct dlk_lease *lease);
void dlk_hold_lost(struct dlk_host *host, struct dlk_lease *lease,
                   const char *why);
void dlk_hold_revoke(struct dlk_host *host, struct dlk_lease *lease);

/* transfer.c: detached holds of this process, for stores whose leases cannot
 * leave it */
struct dlk_value *dlk_detached_put(struct dlk_hold *h); /* the text */
void dlk_detached_forget(struct dlk_hold *h);
/* The hold is that store's lease from now on. */
void dlk_detached_adopt(struct dlk_hold *h, struct dlk_engine *by);
/* It ended. */
void dlk_detached_disown(struct dlk_hold *h);
/* Those that e adopted are released in the background. */
void dlk_detached_release_adopted(struct dlk_engine *e);

/* close.c */
void dlk_close_init(struct dlk_engine *e);
void dlk_close_start(struct dlk_ticket *t);
void dlk_close_timed_out(struct dlk_ticket *t);
/* An operation ended, or the store is less busy. */
void dlk_close_progress(struct dlk_engine *e);
/* Nothing of the store is left. */
void dlk_close_stopped(struct dlk_engine *e);
/* The store takes no operations any more. */
bool dlk_close_refuses(const struct dlk_engine *e);
/* As dlk_loop_calls, over: whether the rest was left to the renewal thread, and
 * the store has stopped. */
bool dlk_close_by_thread(struct dlk_loop *l);

/* events.c */
void dlk_news_add(struct dlk_engine *e, const char *kind, const char *text);
void dlk_news_of_hold(const struct dlk_hold *h, const char *kind,
                      const char *text);

#endif
