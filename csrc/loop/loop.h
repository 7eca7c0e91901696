/* A loop: libuv's, with whoever runs it, what is due in it, and how others are
 * woken. It knows posts and timers, and nothing of locks; what it asks of
 * whoever it is part of stands in a table of functions.
 *
 * Fields are constant, atomic, or guarded by ownership of the loop (owner.h:
 * one thread at a time), unless it says otherwise. */
#ifndef DLK_LOOP_LOOP_H
#define DLK_LOOP_LOOP_H

#include <pthread.h>
#include <uv.h>

#include "loop/inbox.h"
#include "loop/sleeper.h"
#include "loop/timers.h"
#include "loop/wakeup.h"

struct dlk_loop;

/* All by the owner. */
struct dlk_loop_calls {
  /* Does what is due in the batch, each of which it takes out or moves. */
  void (*run_batch)(struct dlk_loop *l, int64_t now);
  /* By the renewal thread. True: it ended the loop (dlk_loop_end_by_thread),
   * and there may be none any more. */
  bool (*over)(struct dlk_loop *l);
};

enum dlk_owner { DLK_OWNER_NONE, DLK_OWNER_CALLER, DLK_OWNER_THREAD };

struct dlk_loop {
  const struct dlk_loop_calls *calls;
  atomic_int owner; /* enum dlk_owner */
  /* So much is under way that the loop has to be run for, even when nobody
   * waits for it. */
  size_t work;
  bool over; /* nothing is left but its end, by the renewal thread */
  struct dlk_inbox inbox;
  struct dlk_timers timers;
  struct dlk_sleeper sleeper; /* of the renewal thread */
  struct dlk_wakeup wakeup;   /* of the program's event loop */
  /* Writes what was only queued for writing; NULL: there is nothing that
   * writes, or it does so at once. */
  void (*flush)(void *of);
  /* Waits for the one thing that is under way, for DLK_AWAIT_MAX at most, and
   * not past a signal; false: nothing came. NULL: only the loop can tell. */
  bool (*await)(void *of);
  void *flush_of; /* of both */
  /* Readable when something is to be read though nobody waits; -1: none. It is
   * polled while something is in the batch. */
  atomic_int watch_fd;
  atomic_bool batched;  /* something was in the batch when the owner left */
  atomic_bool resident; /* the renewal thread runs the loop all the time */
  atomic_bool ended;    /* set under lock: nobody enters to use it any more */

  /* Who sleeps for the loop, and who wakes its owner. Never taken on the way of
   * a request that needs none of these. */
  pthread_mutex_t lock;
  pthread_cond_t freed;       /* the loop was left, or what one waits for is */
  atomic_int callers_waiting; /* changed under lock */
  pthread_t thread;

  uv_loop_t uv;
  uv_async_t kick;
  uv_timer_t tick;
  int64_t tick_at, slice_end;
  int64_t turned; /* when libuv's loop was run last */
};

static inline void dlk_loop_flush(struct dlk_loop *l) {
  if (l->flush)
    l->flush(l->flush_of);
}

#endif
