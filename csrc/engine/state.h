/* The engine of one open store: what its parts share. Parts that are known here
 * have a struct of their own in a header of their own; those that stand above
 * this file (local queue, close) are pointed to.
 *
 * What is not constant, atomic or said otherwise is guarded by ownership of the
 * loop (loop/owner.h). */
#ifndef DLK_ENGINE_STATE_H
#define DLK_ENGINE_STATE_H

#include "core/count.h"
#include "core/trace.h"
#include "engine/events.h"
#include "engine/hold/held.h"
#include "engine/random.h"
#include "engine/stats.h"
#include "engine/ticket/completion.h"
#include "engine/work.h"
#include "loop/socket.h"

struct dlk_local_queues;
struct dlk_close;

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

/* Counts the forks that made this process, from now on. */
unsigned dlk_fork_stamp(void);
/* Says that the store was closed; false. */
bool dlk_engine_say_closed(const struct dlk_engine *e, struct dlk_error *err);

#endif
