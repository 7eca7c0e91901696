/* The renewal thread's sleep in poll(2). It first stores when it wakes by
 * itself (`wake`), so that others signal it only for something earlier. */
#ifndef DLK_LOOP_SLEEPER_H
#define DLK_LOOP_SLEEPER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct dlk_sleeper {
  pthread_mutex_t lock; /* keeps fd open during a write */
  int fd;
  atomic_bool running;    /* set under lock; fd is open */
  atomic_bool stop;       /* set under lock */
  _Atomic int64_t due;    /* when the loop next needs running */
  _Atomic int64_t wake;   /* when the thread wakes by itself; 0: it is awake */
  atomic_bool wants_loop; /* it found the loop owned */
};

bool dlk_sleeper_init(struct dlk_sleeper *s);
void dlk_sleeper_destroy(struct dlk_sleeper *s);
/* 0, or an errno. */
int dlk_sleeper_open(struct dlk_sleeper *s);
/* Closes fd; nobody signals it any more. */
void dlk_sleeper_end(struct dlk_sleeper *s);
/* False: it was told, or there is none. */
bool dlk_sleeper_stop(struct dlk_sleeper *s);
void dlk_sleeper_signal(struct dlk_sleeper *s);
/* By the thread, before it looks. */
void dlk_sleeper_clear(struct dlk_sleeper *s);

#endif
