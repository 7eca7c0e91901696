/* Telling an event loop that tickets are done.
 *
 * A ticket that somebody watches goes into the list `ready` when it gets done,
 * once, with a reference of the list's; dlk_engine_completed empties it. The
 * list allocates nothing and holds each ticket at most once, so it is bounded
 * by the tickets under way. Watching and finishing meet under e->lock: either
 * the watch sees the ticket done, or the finish sees it watched.
 *
 * Whoever finishes a ticket runs in the driver role and only notes that there
 * is something to tell (`ring`); the keeper rings once for all of it at the end
 * of its turn, outside of e->lock: a bell under the lock would wake the very
 * thread that then has to wait for the lock. A listener clears the bell before
 * it empties the list, so a ring is never lost; one for nothing may happen. A
 * caller in the role is the listener, as a rule: it is told when it watches its
 * own ticket, and no bell is needed.
 *
 * `ready` and the bells are those of the ticket's listener, which is another
 * engine than the ticket's only for leases that another store attached. Then
 * the locks of both are never held together, and the bell is rung at once.
 *
 * There are two bells: an eventfd for loops that can poll a descriptor, and
 * the line of line.c for nginx, which can only read sockets. */
#include "engine/internal.h"

#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

void dlk_notify_init(struct dlk_engine *e) {
  dlk_list_init(&e->ready);
  e->bell_fd = -1;
  dlk_line_init(e);
}

/* ---- the driver's side ---- */

void dlk_notify_done(struct dlk_engine *e, struct dlk_ticket *t) {
  if (t->watch_id == 0)
    return;
  atomic_store(&e->ring, true);
  dlk_ticket_ref(t);
  dlk_list_append(&e->ready, &t->ready);
}

static void ring(struct dlk_engine *e) {
  int fd = atomic_load(&e->bell_fd);
  if (fd >= 0) {
    uint64_t one = 1;
    ssize_t n = write(fd, &one, sizeof one);
    (void)n; /* full means rung already */
  }
}

/* True: somebody has to be told, and it is the caller's task now. */
static bool take_ring(struct dlk_engine *e) {
  return atomic_load(&e->ring) && atomic_exchange(&e->ring, false);
}

void dlk_notify_ring(struct dlk_engine *e) {
  if (!take_ring(e))
    return;
  ring(e);
  dlk_line_ring(e);
}

/* Its bell may be closed meanwhile. */
void dlk_notify_ring_abroad(struct dlk_engine *l) {
  pthread_mutex_lock(&l->line_lock);
  ring(l);
  pthread_mutex_unlock(&l->line_lock);
  dlk_line_ring(l);
}

void dlk_notify_done_abroad(struct dlk_ticket *t) {
  struct dlk_engine *l = t->listener;
  pthread_mutex_lock(&l->lock);
  bool told = t->watch_id != 0 && !l->joined;
  if (told) {
    dlk_ticket_ref(t);
    dlk_list_append(&l->ready, &t->ready);
  }
  pthread_mutex_unlock(&l->lock);
  if (told)
    dlk_notify_ring_abroad(l);
}

/* ---- the listener's side ---- */

void dlk_engine_resident(struct dlk_engine *e) {
  pthread_mutex_lock(&e->lock);
  if (!e->resident) {
    e->resident = true;
    e->due = 0;
    if (e->keeper_running && e->role == DLK_ROLE_FREE)
      dlk_keeper_signal(e);
  }
  pthread_mutex_unlock(&e->lock);
}

uint64_t dlk_ticket_watch(struct dlk_ticket *t, bool *others) {
  struct dlk_engine *e = t->listener;
  uint64_t id = 0;
  if (others)
    *others = take_ring(e);
  else
    dlk_notify_ring(e);
  if (e != t->engine)
    dlk_keeper_look(t->engine);
  pthread_mutex_lock(&e->lock);
  if (!dlk_ticket_done(t)) {
    if (t->watch_id == 0)
      t->watch_id = ++e->last_watch;
    id = t->watch_id;
  }
  pthread_mutex_unlock(&e->lock);
  return id;
}

int dlk_engine_bell(struct dlk_engine *e) {
  int fd = atomic_load(&e->bell_fd);
  if (fd >= 0 || e->joined)
    return fd;
  /* Rung at birth: the list may not be empty. */
  fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
  atomic_store(&e->bell_fd, fd);
  return fd;
}

size_t dlk_engine_completed(struct dlk_engine *e, uint64_t *ids, size_t max) {
  struct dlk_list taken;
  size_t n = 0;
  int fd = atomic_load(&e->bell_fd);
  if (fd >= 0) {
    uint64_t rung;
    ssize_t got = read(fd, &rung, sizeof rung);
    (void)got;
  }
  dlk_list_init(&taken);
  pthread_mutex_lock(&e->lock);
  while (n < max && !dlk_list_empty(&e->ready)) {
    struct dlk_ticket *t =
        DLK_CONTAINER(e->ready.next, struct dlk_ticket, ready);
    dlk_list_remove(&t->ready);
    dlk_list_append(&taken, &t->ready);
    ids[n++] = t->watch_id;
  }
  pthread_mutex_unlock(&e->lock);
  while (!dlk_list_empty(&taken)) {
    struct dlk_ticket *t = DLK_CONTAINER(taken.next, struct dlk_ticket, ready);
    dlk_list_remove(&t->ready);
    dlk_ticket_drop_ref(t);
  }
  return n;
}

void dlk_notify_close_bell(struct dlk_engine *e) {
  pthread_mutex_lock(&e->line_lock);
  int fd = atomic_exchange(&e->bell_fd, -1);
  if (fd >= 0)
    close(fd);
  pthread_mutex_unlock(&e->line_lock);
}

void dlk_engine_deafen(struct dlk_engine *e) {
  uint64_t ids[64];
  while (dlk_engine_completed(e, ids, 64) > 0)
    continue;
}
