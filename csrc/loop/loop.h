/* libuv's loop, its ownership, timers and wakeups. It knows nothing of locks.
 * Fields are constant, atomic, or guarded by ownership (owner.h), unless it
 * says otherwise. */
#ifndef DLK_LOOP_LOOP_H
#define DLK_LOOP_LOOP_H

#include <pthread.h>
#include <uv.h>

#include "loop/inbox.h"
#include "loop/sleeper.h"
#include "loop/timers.h"
#include "loop/wakeup.h"

struct dlk_loop;

/* By the owner. */
struct dlk_loop_calls {
  /* Does what is due in the batch, and takes out or moves each part. */
  void (*run_batch)(struct dlk_loop *l, int64_t now);
  /* By the renewal thread. True: it ended the loop, which may be freed. */
  bool (*over)(struct dlk_loop *l);
};

enum dlk_owner { DLK_OWNER_NONE, DLK_OWNER_CALLER, DLK_OWNER_THREAD };

struct dlk_loop {
  const struct dlk_loop_calls *calls;
  atomic_int owner; /* enum dlk_owner */
  /* how many things under way need the loop run, even without a waiter */
  size_t work;
  bool over; /* only its end by the renewal thread is left */
  struct dlk_inbox inbox;
  struct dlk_timers timers;
  struct dlk_sleeper sleeper; /* of the renewal thread */
  struct dlk_wakeup wakeup;   /* of the program's event loop */
  /* Writes what was queued; NULL: nothing ever is. */
  void (*flush)(void *of);
  /* Waits at most DLK_AWAIT_MAX, and not past a signal, for the one answer
   * under way. NULL: only the loop can tell. */
  bool (*await)(void *of);
  void *flush_of; /* of both */
  /* Readable when a message came that no caller awaits; -1: none. The renewal
   * thread polls it while the batch has something. */
  atomic_int watch_fd;
  atomic_bool batched;  /* the batch had something when the owner left */
  atomic_bool resident; /* the renewal thread runs the loop */
  atomic_bool ended;    /* set under lock: no thread enters to use it */

  /* Only for sleeping and for waking sleepers. */
  pthread_mutex_t lock;
  pthread_cond_t freed;       /* the loop was left, or an answer came */
  atomic_int callers_waiting; /* changed under lock */
  pthread_t thread;

  uv_loop_t uv;
  uv_async_t kick;
  uv_timer_t tick;
  int64_t tick_at, slice_end;
  int64_t turned; /* when libuv's loop ran last */
};

static inline void dlk_loop_flush(struct dlk_loop *l) {
  if (l->flush)
    l->flush(l->flush_of);
}

#endif
