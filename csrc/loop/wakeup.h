/* Wakes the program's event loop: by an eventfd, or in nginx by a socket
 * (socket.h).
 *
 * The loop's owner notes that something is ready (`wanted`), and wakes the
 * listener once at the end of its turn. The listener clears the eventfd before
 * it looks, so no wakeup is lost.
 *
 * A polled descriptor is not closed, because its number may soon be another's.
 * The listener says when polling begins and ends (dlk_wakeup_keep). An end in
 * between signals for the last time, and the last poller closes it, or
 * dlk_wakeup_destroy.
 *
 * Any thread writes; the listener's opens and closes. A write and a close hold
 * the lock. */
#ifndef DLK_LOOP_WAKEUP_H
#define DLK_LOOP_WAKEUP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct dlk_wakeup {
  atomic_bool wanted; /* something is ready, and nobody was woken */
  pthread_mutex_t lock;
  atomic_int event_fd; /* -1: none; closed under lock */
  int socket_fd;       /* under lock */
  atomic_bool socket_open;
  bool kept, ended; /* the listener's */
  unsigned process; /* the listener's: maker of event_fd */
};

bool dlk_wakeup_init(struct dlk_wakeup *w);
void dlk_wakeup_destroy(struct dlk_wakeup *w);

/* ---- by any thread ---- */

/* By the owner. */
static inline void dlk_wakeup_note(struct dlk_wakeup *w) {
  atomic_store(&w->wanted, true);
}

void dlk_wakeup_send(struct dlk_wakeup *w);

/* True: the caller has to wake the listener. */
static inline bool dlk_wakeup_take(struct dlk_wakeup *w) {
  return atomic_load(&w->wanted) && atomic_exchange(&w->wanted, false);
}

static inline void dlk_wakeup_flush(struct dlk_wakeup *w) {
  if (dlk_wakeup_take(w))
    dlk_wakeup_send(w);
}

/* False: nobody listens on the socket. */
bool dlk_wakeup_beat(struct dlk_wakeup *w);

/* ---- the listener ---- */

/* -1: none to be had. Another `process` (a number, not 0) makes a new one,
 * because parent and child would read the other's. */
int dlk_wakeup_fd(struct dlk_wakeup *w, unsigned process);
void dlk_wakeup_clear(struct dlk_wakeup *w);
/* Whether it is polled from now on; after the end, false closes it. */
void dlk_wakeup_keep(struct dlk_wakeup *w, bool keep);
void dlk_wakeup_end(struct dlk_wakeup *w);
/* w owns fd; -1: none. */
void dlk_wakeup_set_socket(struct dlk_wakeup *w, int fd);

#endif
