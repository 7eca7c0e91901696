/* Ownership of the loop (loop/owner.h) guards what is not constant, atomic or
 * said otherwise. */
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
struct dlk_request_calls;

/* See ticket/completion.c. */
struct dlk_completion {
  struct dlk_completion *next;
  _Atomic uint64_t number; /* 0: nobody watches it */
};

struct dlk_completions {
  struct dlk_completion *_Atomic ready; /* watched and done, latest first */
  atomic_bool closed;                   /* the join came */
  /* The listener's, as all that follows: taken from `ready`. */
  struct dlk_completion *taken;
  uint64_t last_number;
  struct dlk_free_numbers {
    uint64_t *list;
    size_t old, len, limit; /* old: told before the last call */
  } free;
};

struct dlk_held {
  struct dlk_list list;    /* held */
  _Atomic int64_t horizon; /* no hold outlives it */
  struct dlk_timer horizon_timer;
  struct dlk_pool spare;
  bool suspected;
};

/* What the store has: operations and background work (host.busy). The loop runs
 * for it without callers. */
struct dlk_work {
  struct dlk_list ops; /* tickets */
  size_t busy;
  struct dlk_post *idle; /* posted when nothing is left; or NULL */
};

struct dlk_engine {
  struct dlk_host host; /* first: the store's view */
  const struct dlk_store_type *type;
  void *store;
  bool store_used;
  bool refuses;
  void *conf_memory;
  size_t conf_size;
  struct dlk_secret *secret;
  const char *shown, *given_name, *prefix;
  int64_t io_timeout;
  bool quiet; /* no store events */
  char name[128];

  atomic_int refs;
  atomic_uint users, last_user;
  void (*free)(struct dlk_engine *e);
  atomic_uint fork_stamp; /* 0: never used */
  atomic_bool closing;
  struct dlk_list in_use;
  bool behind_tls;

  struct dlk_loop loop;
  struct dlk_socket socket;
  struct dlk_completions completions;
  struct dlk_events events;
  struct dlk_stats stats;
  struct dlk_random random;
  struct dlk_work work;
  struct dlk_held held;
  struct dlk_pool spare_tickets;

  const struct dlk_request_calls *calls;
  struct dlk_local_queues *local;
  struct dlk_close *close;
};

static inline bool dlk_work_is_idle(const struct dlk_work *w) {
  return dlk_list_empty(&w->ops) && w->busy == 0;
}

/* The post has a turn of its own: the store may be in the middle of
 * something. */
static inline void dlk_work_look(struct dlk_engine *e) {
  if (e->work.idle && dlk_work_is_idle(&e->work))
    dlk_inbox_put(&e->loop.inbox, e->work.idle);
}

bool dlk_engine_first_use(struct dlk_engine *e, struct dlk_error *err);
/* store_host.c */
void dlk_host_init(struct dlk_host *host);
/* Another number in a forked child. */
unsigned dlk_fork_stamp(void);
/* Returns false. */
bool dlk_engine_say_closed(const struct dlk_engine *e, struct dlk_error *err);

#endif
