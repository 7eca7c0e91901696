/* Waking an event loop of the program's: an eventfd for those that can poll a
 * descriptor, and a socket (socket.h) for nginx, which can only read sockets
 * that its Lua code connected.
 *
 * The loop's owner only notes that there is something to be told (`wanted`) and
 * wakes the listener once for all of it at the end of its turn. The listener
 * clears the eventfd before it looks, so a wakeup is never lost; one for
 * nothing may happen.
 *
 * A descriptor that somebody polls is not closed under him: his loop would wait
 * for a descriptor that is no more, or is another one by now. The listener says
 * when polling begins and ends (dlk_wakeup_keep). An end in between signals it
 * for the last time, so that all go, and the last one closes it. If they were
 * dropped instead, it is closed with the rest.
 *
 * Writing is done by any thread, opening and closing by the listener's. The
 * lock is held for one system call that never waits: without it the descriptor
 * could be closed, and be somebody else's, between the look and the write. */
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
  unsigned process; /* the listener's: that event_fd was made in */
};

bool dlk_wakeup_init(struct dlk_wakeup *w);
void dlk_wakeup_destroy(struct dlk_wakeup *w); /* and closes it */

/* ---- who has something to tell ---- */

/* By the owner: at the end of its turn the listener is to be woken. */
static inline void dlk_wakeup_note(struct dlk_wakeup *w) {
  atomic_store(&w->wanted, true);
}

/* At once, from any thread. */
void dlk_wakeup_send(struct dlk_wakeup *w);

/* True: somebody has to be woken, and it is the caller's task now. */
static inline bool dlk_wakeup_take(struct dlk_wakeup *w) {
  return atomic_load(&w->wanted) && atomic_exchange(&w->wanted, false);
}

/* Wakes for what was noted. */
static inline void dlk_wakeup_flush(struct dlk_wakeup *w) {
  if (dlk_wakeup_take(w))
    dlk_wakeup_send(w);
}

/* A byte on the socket; false when nobody listens (any more). */
bool dlk_wakeup_beat(struct dlk_wakeup *w);

/* ---- the listener ---- */

/* The eventfd, made at the first call; -1: there is none to be had. In another
 * process (by its number, not 0) than the last time it is made anew: that one
 * is the parent's too, and each would read away what is told to the other. */
int dlk_wakeup_fd(struct dlk_wakeup *w, unsigned process);
void dlk_wakeup_clear(struct dlk_wakeup *w);
/* keep: from now on somebody polls it. Not: nobody does any more, and it is
 * closed now if the end came. */
void dlk_wakeup_keep(struct dlk_wakeup *w, bool keep);
/* Signals it if it is kept, else closes it. */
void dlk_wakeup_end(struct dlk_wakeup *w);
/* fd belongs to w from now on; -1: none, the one of before is closed. */
void dlk_wakeup_set_socket(struct dlk_wakeup *w, int fd);

#endif
