/* What is under way for an engine: operations that the store has, and what the
 * store does in the background (host.busy). The loop is run for it even when
 * nobody waits; and whoever waits for the end of all of it posts. */
#ifndef DLK_ENGINE_WORK_H
#define DLK_ENGINE_WORK_H

#include "core/list.h"
#include "loop/loop.h"

struct dlk_work {
  struct dlk_list ops; /* tickets */
  size_t busy;
  struct dlk_post *idle; /* posted when nothing is under way; NULL: no need */
};

static inline bool dlk_work_is_idle(const struct dlk_work *w) {
  return dlk_list_empty(&w->ops) && w->busy == 0;
}

static inline void dlk_work_begin(struct dlk_work *w, struct dlk_loop *l,
                                  struct dlk_list *op) {
  dlk_list_append(&w->ops, op);
  l->work++;
}

/* dlk_work_look has to follow. */
static inline void dlk_work_end(struct dlk_loop *l, struct dlk_list *op) {
  dlk_list_remove(op);
  l->work--;
}

/* Something ended. The post runs in a turn of its own: the store may be in the
 * middle of something. */
static inline void dlk_work_look(const struct dlk_work *w, struct dlk_loop *l) {
  if (w->idle && dlk_work_is_idle(w))
    dlk_inbox_put(&l->inbox, w->idle);
}

static inline void dlk_work_busy(struct dlk_work *w, struct dlk_loop *l,
                                 int delta) {
  w->busy += (size_t)delta;
  l->work += (size_t)delta;
  dlk_work_look(w, l);
}

#endif
