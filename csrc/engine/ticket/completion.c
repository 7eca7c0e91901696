/* Telling that a ticket is done: the callers that run the loop, and the event
 * loop that watches it.
 *
 * A watched ticket that gets done goes onto the list `ready`, once, without
 * memory or lock. The listener sets it watched, then looks whether it is done;
 * the finisher sets it done, then looks whether it is watched. So one of them
 * sees the other. If both do, a number is told in vain.
 *
 * The end of the finisher's turn wakes the listener (loop/wakeup.h). A caller
 * that owns the loop is the listener: dlk_ticket_watch tells it.
 *
 * Numbers are small, since tables are fast then, and used again. */
#include "engine/ticket/ticket.h"

#include <stdlib.h>

#include "loop/life.h"
#include "loop/owner.h"

void dlk_ticket_tell(struct dlk_ticket *t) {
  struct dlk_engine *e = t->engine;
  struct dlk_completions *c = &e->completions;
  if (atomic_load(&t->completion.number) != 0) {
    dlk_ticket_ref(t);
    struct dlk_completion *latest = atomic_load(&c->ready);
    do {
      t->completion.next = latest;
    } while (!atomic_compare_exchange_weak(&c->ready, &latest, &t->completion));
    dlk_wakeup_note(&e->loop.wakeup);
  }
  dlk_owner_tell_callers(&e->loop);
}

/* ---- numbers ---- */

static uint64_t take_number(struct dlk_completions *c) {
  struct dlk_free_numbers *f = &c->free;
  if (f->old == 0)
    return ++c->last_number;
  uint64_t number = f->list[--f->old];
  f->list[f->old] = f->list[--f->len];
  return number;
}

/* Without memory it is not used again. */
static void give_back_number(struct dlk_completions *c, uint64_t number) {
  struct dlk_free_numbers *f = &c->free;
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

/* ---- the listener ---- */

void dlk_engine_take_others(struct dlk_engine *e, bool *others) {
  if (others)
    *others = dlk_wakeup_take(&e->loop.wakeup);
  else
    dlk_wakeup_flush(&e->loop.wakeup);
}

uint64_t dlk_ticket_watch(struct dlk_ticket *t, bool *others) {
  struct dlk_engine *e = t->engine;
  dlk_engine_take_others(e, others);
  if (dlk_ticket_done(t))
    return 0;
  uint64_t number = atomic_load(&t->completion.number);
  if (number == 0) {
    number = take_number(&e->completions);
    atomic_store(&t->completion.number, number);
  }
  return atomic_load(&t->state) >= DLK_TICKET_DONE ? 0 : number;
}

static void drop(struct dlk_completion *one) {
  dlk_ticket_drop_ref(DLK_CONTAINER(one, struct dlk_ticket, completion));
}

/* The oldest first. */
static struct dlk_completion *take_ready(struct dlk_completions *c) {
  if (!atomic_load(&c->ready))
    return NULL;
  struct dlk_completion *latest = atomic_exchange(&c->ready, NULL);
  struct dlk_completion *first = NULL;
  while (latest) {
    struct dlk_completion *one = latest;
    latest = one->next;
    one->next = first;
    first = one;
  }
  return first;
}

size_t dlk_engine_completed(struct dlk_engine *e, uint64_t *ids, size_t max) {
  struct dlk_completions *c = &e->completions;
  size_t n = 0;
  dlk_wakeup_clear(&e->loop.wakeup);
  c->free.old = c->free.len;
  for (; n < max; n++) {
    if (!c->taken)
      c->taken = take_ready(c);
    struct dlk_completion *one = c->taken;
    if (!one)
      break;
    c->taken = one->next;
    ids[n] = atomic_load(&one->number);
    give_back_number(c, ids[n]);
    drop(one);
  }
  return n;
}

void dlk_engine_forget_completed(struct dlk_engine *e) {
  uint64_t ids[64];
  while (dlk_engine_completed(e, ids, 64) > 0)
    continue;
}

void dlk_engine_drop_ready(struct dlk_engine *e) {
  struct dlk_completion *next;
  for (struct dlk_completion *one = take_ready(&e->completions); one;
       one = next) {
    next = one->next;
    drop(one);
  }
}

/* ---- wakeups ---- */

void dlk_engine_resident(struct dlk_engine *e) {
  dlk_loop_make_resident(&e->loop);
}

int dlk_engine_wakeup(struct dlk_engine *e) {
  return dlk_wakeup_fd(&e->loop.wakeup, dlk_fork_stamp());
}

void dlk_engine_keep_wakeup(struct dlk_engine *e, bool keep) {
  dlk_wakeup_keep(&e->loop.wakeup, keep);
}

const char *dlk_engine_serve(struct dlk_engine *e, struct dlk_error *err) {
  return dlk_socket_serve(&e->socket, err);
}

bool dlk_engine_accept(struct dlk_engine *e) {
  return dlk_socket_accept(&e->socket);
}

void dlk_engine_hang_up(struct dlk_engine *e) {
  dlk_socket_hang_up(&e->socket);
}
