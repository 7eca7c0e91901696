/* See events.c. */
#ifndef DLK_ENGINE_EVENTS_H
#define DLK_ENGINE_EVENTS_H

#include <pthread.h>

#include "engine/engine.h"

struct dlk_events {
  atomic_bool any;
  pthread_mutex_t lock;
  struct dlk_event *first, *last; /* under lock, like count */
  size_t count;
};

bool dlk_events_init(struct dlk_events *ev);
void dlk_events_destroy(struct dlk_events *ev);
/* From any thread. id and lease are the hold's, or 0 and NULL. The caller wakes
 * the listener. */
void dlk_events_add(struct dlk_events *ev, const char *kind, uint64_t id,
                    const struct dlk_lease *lease, const char *text);

static inline bool dlk_events_any(const struct dlk_events *ev) {
  return atomic_load_explicit(&ev->any, memory_order_relaxed);
}

/* Takes all, the oldest first. */
struct dlk_event *dlk_events_take(struct dlk_events *ev);

#endif
