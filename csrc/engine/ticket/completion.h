/* What an event loop has to be told of: that something it watches is done. See
 * completion.c. */
#ifndef DLK_ENGINE_TICKET_COMPLETION_H
#define DLK_ENGINE_TICKET_COMPLETION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In whatever can be watched; zeroed. */
struct dlk_completion {
  struct dlk_completion *next;
  _Atomic uint64_t number; /* 0: nobody watches it */
};

struct dlk_completions {                /* zeroed */
  struct dlk_completion *_Atomic ready; /* watched and done, latest first */
  atomic_bool closed;                   /* the listener is done with all */
  /* Of the listener, as what follows: taken from `ready`. */
  struct dlk_completion *taken;
  uint64_t last_number;
  struct dlk_free_numbers { /* that were told */
    uint64_t *list;
    size_t old, len, limit; /* so many were told before the last time */
  } free;
};

void dlk_completions_destroy(struct dlk_completions *c);

static inline bool dlk_completion_is_watched(struct dlk_completion *one) {
  return atomic_load(&one->number) != 0;
}

/* ---- whoever finishes it ---- */

/* It is done; `one` belongs to c until it is taken. */
void dlk_completions_put(struct dlk_completions *c, struct dlk_completion *one);

/* ---- the listener ---- */

/* Its number, the same at every call; it has to look behind that whether it is
 * done. */
uint64_t dlk_completions_watch(struct dlk_completions *c,
                               struct dlk_completion *one);
/* The numbers of what got done, at most max of them, each of which is given to
 * `drop`; fewer than max: there are no more. */
size_t dlk_completions_take(struct dlk_completions *c, uint64_t *numbers,
                            size_t max,
                            void (*drop)(struct dlk_completion *one));
/* Nobody asks any more. False: that was said before. */
bool dlk_completions_close(struct dlk_completions *c);
/* Drops what is ready, in any thread, once nobody asks. */
void dlk_completions_forget(struct dlk_completions *c,
                            void (*drop)(struct dlk_completion *one));

#endif
