/* How the renewal thread sleeps, and how it is woken.
 *
 * It sleeps in poll(2) on an eventfd of its own. Before that it says when it
 * wakes by itself (`wake`), so that whoever changes something signals it only
 * if that is for earlier; while it is awake `wake` is 0: it is going to look at
 * everything anyway (thread.c). */
#ifndef DLK_LOOP_SLEEPER_H
#define DLK_LOOP_SLEEPER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct dlk_sleeper {
  pthread_mutex_t lock; /* the descriptor stays open while one writes to it */
  int fd;
  atomic_bool running;    /* set under lock; then fd is open */
  atomic_bool stop;       /* likewise: the thread is to end */
  _Atomic int64_t due;    /* when the loop next needs running */
  _Atomic int64_t wake;   /* when the thread wakes by itself; 0: it is awake */
  atomic_bool wants_loop; /* it found the loop owned by somebody else */
};

bool dlk_sleeper_init(struct dlk_sleeper *s);
void dlk_sleeper_destroy(struct dlk_sleeper *s);
/* 0, or an errno. */
int dlk_sleeper_open(struct dlk_sleeper *s);
void dlk_sleeper_close(struct dlk_sleeper *s);
/* The thread is there. */
void dlk_sleeper_begin(struct dlk_sleeper *s);
/* Nobody signals it any more. */
void dlk_sleeper_end(struct dlk_sleeper *s);
/* Tells the thread to end; false: it was told, or there is none. */
bool dlk_sleeper_stop(struct dlk_sleeper *s);
/* Wakes it, if it sleeps; it looks at `due` then. */
void dlk_sleeper_signal(struct dlk_sleeper *s);
/* By the thread: the eventfd spoke. */
void dlk_sleeper_clear(struct dlk_sleeper *s);

#endif
