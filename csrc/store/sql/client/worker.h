/* A connection with a thread of its own, and a queue of calls for it. */
#ifndef DLK_STORE_SQL_CLIENT_WORKER_H
#define DLK_STORE_SQL_CLIENT_WORKER_H

#include "store/host.h"
#include "store/sql/client/call.h"

/* By the loop. */
struct dlk_sql_events {
  void (*heard)(void *user, const char *text);
  /* A worker with a channel: 1: it hears notices from now on, 0: it is open and
   * hears none, -1: it is closed. */
  void (*listening)(void *user, int hears);
  void (*gone)(void *user, struct dlk_sql_worker *w);
};

/* NULL: no memory or no thread. It takes over the place. */
struct dlk_sql_worker *
dlk_sql_worker_start(struct dlk_host *host,
                     const struct dlk_sql_dialect *dialect,
                     const struct dlk_sql_place *place,
                     const struct dlk_sql_events *events, void *user);
/* The answer comes later, never from inside. */
void dlk_sql_worker_put(struct dlk_sql_worker *w, struct dlk_sql_call *call);
/* True, and the call is freed: nothing of it was sent. */
bool dlk_sql_worker_withdraw(struct dlk_sql_worker *w,
                             struct dlk_sql_call *call);
/* Keeps the connection open, and opens it; else it is closed a minute after its
 * last call. */
void dlk_sql_worker_keep(struct dlk_sql_worker *w, bool kept);
/* Runs what is queued until `deadline`, and ends. `gone` follows. */
void dlk_sql_worker_end(struct dlk_sql_worker *w, int64_t deadline);
/* After `end`: `gone` comes at once, or after the post under way. */
void dlk_sql_worker_abandon(struct dlk_sql_worker *w);

#endif
