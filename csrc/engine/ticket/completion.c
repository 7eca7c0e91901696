/* Telling an event loop that what it watches is done.
 *
 * What somebody watches is put in front of the list `ready` when it gets done,
 * once; the listener takes the list and turns it round. It allocates nothing
 * and holds each at most once, so it is bounded by what is under way. Nobody
 * waits for a lock here. Whoever watches says so and then looks whether it is
 * done; whoever finishes it sets it done and then looks whether it is watched:
 * so one of them sees the other. If both do, its number is told although nobody
 * waits for it any more.
 *
 * Numbers are small, because tables are fast then: those that were told are
 * given again, from the next dlk_completions_take on, when the listener has
 * seen to them. (That of something which got done while it was given may never
 * be told.) */
#include "engine/ticket/completion.h"

#include <stdlib.h>

void dlk_completions_destroy(struct dlk_completions *c) {
  free(c->free.list);
}

void dlk_completions_put(struct dlk_completions *c,
                         struct dlk_completion *one) {
  struct dlk_completion *latest = atomic_load(&c->ready);
  do {
    one->next = latest;
  } while (!atomic_compare_exchange_weak(&c->ready, &latest, one));
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

/* Without memory it is not given again. */
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

uint64_t dlk_completions_watch(struct dlk_completions *c,
                               struct dlk_completion *one) {
  uint64_t number = atomic_load(&one->number);
  if (number == 0) {
    number = take_number(c);
    atomic_store(&one->number, number);
  }
  return number;
}

/* ---- the list ---- */

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

size_t dlk_completions_take(struct dlk_completions *c, uint64_t *numbers,
                            size_t max,
                            void (*drop)(struct dlk_completion *one)) {
  size_t n = 0;
  c->free.old = c->free.len;
  for (; n < max; n++) {
    if (!c->taken)
      c->taken = take_ready(c);
    struct dlk_completion *one = c->taken;
    if (!one)
      break;
    c->taken = one->next;
    numbers[n] = atomic_load(&one->number);
    give_back_number(c, numbers[n]);
    drop(one);
  }
  return n;
}

bool dlk_completions_close(struct dlk_completions *c) {
  return !atomic_exchange(&c->closed, true);
}

void dlk_completions_forget(struct dlk_completions *c,
                            void (*drop)(struct dlk_completion *one)) {
  for (struct dlk_completion *one = take_ready(c), *next; one; one = next) {
    next = one->next;
    drop(one);
  }
}
