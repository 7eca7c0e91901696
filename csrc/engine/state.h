/* The engine of one open store: what its parts share. Parts that stand above
 * this file (local queue, close) are pointed to.
 *
 * What is not constant, atomic or said otherwise is guarded by ownership of the
 * loop (loop/owner.h). */
#ifndef DLK_ENGINE_STATE_H
#define DLK_ENGINE_STATE_H

#include "core/count.h"
#include "core/pool.h"
#include "core/trace.h"
#include "engine/events.h"
#include "engine/random.h"
#include "engine/stats.h"
#include "loop/socket.h"

struct dlk_local_queues;
struct dlk_close;
struct dlk_lease_calls;

/* Tickets that an event loop is told of: see ticket/completion.c. */
struct dlk_completion { /* in a ticket */
  struct dlk_completion *next;
  _Atomic uint64_t number; /* 0: nobody watches it */
};

struct dlk_completions {
  struct dlk_completion *_Atomic ready; /* watched and done, latest first */
  atomic_bool closed;                   /* the listener is done with all */
  /* Of the listener, as what follows: taken from `ready`. */
  struct dlk_completion *taken;
  uint64_t last_number;
  struct dlk_free_numbers { /* that were told */
    uint64_t *list;
    size_t old, len, limit; /* so many were told before the last time */
  } free;
};

/* What the engine holds: lease.c, renewal.c. */
struct dlk_held {
  struct dlk_list list; /* holds that are HELD */
  const struct dlk_lease_calls *calls;
  _Atomic int64_t horizon; /* none is held past this time */
  struct dlk_timer horizon_timer;
  struct dlk_pool spare; /* memory of holds */
  bool suspected;        /* the event `suspicious` was said */
};

/* What is under way: operations that the store has, and what the store does in
 * the background (host.busy). The loop is run for it even when nobody waits. */
struct dlk_work {
  struct dlk_list ops; /* tickets */
  size_t busy;
  struct dlk_post *idle; /* posted when nothing is under way; NULL: no need */
};

struct dlk_engine {
  struct dlk_host host; /* first: what the store is handed */
  const struct dlk_store_type *type;
  void *store;
  bool store_used;
  bool refuses;      /* the store takes no operations any more */
  void *conf_memory; /* conf.h */
  size_t conf_size;
  struct dlk_secret *secret;               /* NULL: the password stays */
  const char *shown, *given_name, *prefix; /* prefix: as it is used */
  int64_t io_timeout;
  bool quiet; /* nobody is there for what a store tells by itself */
  char name[128];

  atomic_int refs;
  atomic_uint users, last_user; /* how many share it; the last one's number */
  void (*free)(struct dlk_engine *e); /* by the last reference */
  atomic_uint fork_stamp;             /* 0: never used */
  atomic_bool closing;                /* no request is taken */
  struct dlk_list in_use;             /* in_use.c */
  bool behind_tls; /* a grant of it comes after TLS was made ready */

  struct dlk_loop loop;
  struct dlk_socket socket;
  struct dlk_completions completions;
  struct dlk_events events;
  struct dlk_stats stats;
  struct dlk_random random;
  struct dlk_work work;
  struct dlk_held held;
  struct dlk_pool spare_tickets;

  struct dlk_local_queues *local;
  struct dlk_close *close;
};

static inline bool dlk_work_is_idle(const struct dlk_work *w) {
  return dlk_list_empty(&w->ops) && w->busy == 0;
}

/* Something ended. The post runs in a turn of its own: the store may be in the
 * middle of something. */
static inline void dlk_work_look(struct dlk_engine *e) {
  if (e->work.idle && dlk_work_is_idle(&e->work))
    dlk_inbox_put(&e->loop.inbox, e->work.idle);
}

/* open.c: sees to its loop and its thread. */
bool dlk_engine_first_use(struct dlk_engine *e, struct dlk_error *err);
/* store_host.c */
void dlk_host_init(struct dlk_host *host);
/* Counts the forks that made this process, from now on. */
unsigned dlk_fork_stamp(void);
/* Says that the store was closed; false. */
bool dlk_engine_say_closed(const struct dlk_engine *e, struct dlk_error *err);

#endif
