/* Telling an event loop that tickets are done.
 *
 * A ticket that somebody watches is put in front of the list `ready` when it
 * gets done, once, with a reference of the list's; dlk_engine_completed takes
 * the list and turns it round. It allocates nothing and holds each ticket at
 * most once, so it is bounded by the tickets under way. Nobody waits for a
 * lock here. Whoever watches says so and then looks whether the ticket is done;
 * whoever finishes it sets it done and then looks whether it is watched: so
 * one of them sees the other. If both do, its number is told although nobody
 * waits for it any more.
 *
 * Whoever finishes a ticket runs in the driver role and only notes that there
 * is something to tell (`ring`); the keeper rings once for all of it at the end
 * of its turn. A listener clears the bell before it empties the list, so a ring
 * is never lost; one for nothing may happen. A caller in the role is the
 * listener, as a rule: it is told when it watches its own ticket, and no bell
 * is needed.
 *
 * `ready` and the bells are those of the ticket's listener, which is another
 * engine than the ticket's only for leases that another store attached. Then
 * the bell is rung at once, and the lock of the listener keeps it from being
 * closed meanwhile: nobody would empty the list.
 *
 * Numbers are small, because tables are fast then: those that were told are
 * given again, from the next dlk_engine_completed on, when the listener has
 * seen to them. (That of a ticket which got done while it was given may never
 * be told.)
 *
 * A bell that somebody polls is not closed under him: his loop would wait for
 * a descriptor that is no more, or is another one by now. The listener says
 * when polling begins and ends (dlk_engine_keep_bell). A join in between rings
 * the bell, for the last time, so that all go, and the last one closes it. If
 * they were dropped instead, it is closed with the engine's last reference.
 *
 * There are two bells: an eventfd for loops that can poll a descriptor, and
 * the line of socket.c for nginx, which can only read sockets. */
#include "engine/internal.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

void dlk_notify_init(struct dlk_engine *e) {
  e->bell_fd = -1;
  dlk_line_init(e);
}

/* ---- the driver's side ---- */

static void put(struct dlk_engine *l, struct dlk_ticket *t) {
  struct dlk_ticket *latest = atomic_load(&l->ready);
  dlk_ticket_ref(t);
  do {
    t->next_ready = latest;
  } while (!atomic_compare_exchange_weak(&l->ready, &latest, t));
}

void dlk_notify_done(struct dlk_ticket *t) {
  if (atomic_load(&t->watch_id) == 0)
    return;
  put(t->listener, t);
  atomic_store(&t->listener->ring, true);
}

/* Under the lock, as its closing: from another thread the descriptor could be
 * closed, and be somebody else's, between the look and the write. */
static void ring(struct dlk_engine *e) {
  pthread_mutex_lock(&e->line_lock);
  int fd = atomic_load(&e->bell_fd);
  if (fd >= 0) {
    uint64_t one = 1;
    ssize_t n = write(fd, &one, sizeof one);
    (void)n; /* full means rung already */
  }
  pthread_mutex_unlock(&e->line_lock);
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

void dlk_notify_others(struct dlk_engine *e, bool *others) {
  if (others)
    *others = take_ring(e);
  else
    dlk_notify_ring(e);
}

void dlk_notify_ring_abroad(struct dlk_engine *l) {
  ring(l);
  dlk_line_ring(l);
}

void dlk_notify_done_abroad(struct dlk_ticket *t) {
  struct dlk_engine *l = t->listener;
  if (atomic_load(&t->watch_id) == 0)
    return;
  pthread_mutex_lock(&l->lock);
  bool told = !atomic_load(&l->closed);
  if (told)
    put(l, t);
  pthread_mutex_unlock(&l->lock);
  if (told)
    dlk_notify_ring_abroad(l);
}

/* ---- the listener's side ---- */

void dlk_engine_resident(struct dlk_engine *e) {
  if (!atomic_exchange(&e->resident, true))
    dlk_keeper_look(e);
}

static uint64_t take_number(struct dlk_engine *e) {
  struct dlk_numbers *f = &e->free_numbers;
  if (f->old == 0)
    return ++e->last_watch;
  uint64_t number = f->list[--f->old];
  f->list[f->old] = f->list[--f->len];
  return number;
}

/* Without memory it is not given again. */
static void give_back_number(struct dlk_engine *e, uint64_t number) {
  struct dlk_numbers *f = &e->free_numbers;
  if (f->len == f->limit) {
    size_t limit = f->limit ? 2 * f->limit : 64;
    uint64_t *list = realloc(f->list, limit * sizeof *list);
    if (!list)
      return;
    f->list = list;
    f->limit = limit;
  }
  f->list[f->len++] = number;
}

uint64_t dlk_ticket_watch(struct dlk_ticket *t, bool *others) {
  struct dlk_engine *e = t->listener;
  dlk_notify_others(e, others);
  if (e != t->engine)
    dlk_keeper_look(t->engine);
  if (dlk_ticket_done(t))
    return 0;
  uint64_t id = atomic_load(&t->watch_id);
  if (id == 0) {
    id = take_number(e);
    atomic_store(&t->watch_id, id);
  }
  return atomic_load(&t->done) ? 0 : id;
}

int dlk_engine_bell(struct dlk_engine *e) {
  int fd = atomic_load(&e->bell_fd);
  if (fd >= 0 || atomic_load(&e->closed))
    return fd;
  /* Rung at birth: the list may not be empty. */
  fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
  atomic_store(&e->bell_fd, fd);
  return fd;
}

static struct dlk_ticket *take_ready(struct dlk_engine *e) {
  if (!atomic_load(&e->ready))
    return NULL;
  struct dlk_ticket *latest = atomic_exchange(&e->ready, NULL), *first = NULL;
  while (latest) {
    struct dlk_ticket *t = latest;
    latest = t->next_ready;
    t->next_ready = first;
    first = t;
  }
  return first;
}

size_t dlk_engine_completed(struct dlk_engine *e, uint64_t *ids, size_t max) {
  size_t n = 0;
  e->free_numbers.old = e->free_numbers.len;
  int fd = atomic_load(&e->bell_fd);
  if (fd >= 0) {
    uint64_t rung;
    ssize_t got = read(fd, &rung, sizeof rung);
    (void)got;
  }
  for (; n < max; n++) {
    if (!e->told)
      e->told = take_ready(e);
    struct dlk_ticket *t = e->told;
    if (!t)
      break;
    e->told = t->next_ready;
    ids[n] = atomic_load(&t->watch_id);
    give_back_number(e, ids[n]);
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

void dlk_engine_keep_bell(struct dlk_engine *e, bool keep) {
  e->bell_kept = keep;
  if (!keep && atomic_load(&e->closed))
    dlk_notify_close_bell(e);
}

void dlk_notify_end_bell(struct dlk_engine *e) {
  if (e->bell_kept)
    ring(e);
  else
    dlk_notify_close_bell(e);
}

void dlk_notify_forget(struct dlk_engine *e) {
  for (struct dlk_ticket *t = take_ready(e), *next; t; t = next) {
    next = t->next_ready;
    dlk_ticket_drop_ref(t);
  }
}

void dlk_engine_deafen(struct dlk_engine *e) {
  uint64_t ids[64];
  while (dlk_engine_completed(e, ids, 64) > 0)
    continue;
}
