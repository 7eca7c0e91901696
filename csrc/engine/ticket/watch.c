/* Telling the listener of a ticket that it is done: the callers that run its
 * engine's loop, and the event loop that watches it.
 *
 * Whoever finishes a ticket owns its engine's loop, and notes that the listener
 * is to be woken at the end of the turn (loop/wakeup.h). A caller who owns the
 * loop is the listener: he is told when he watches his own ticket, and needs no
 * wakeup. */
#include "engine/ticket/watch.h"

#include "loop/life.h"
#include "loop/owner.h"

void dlk_ticket_tell(struct dlk_ticket *t) {
  struct dlk_engine *e = t->engine;
  if (dlk_completion_is_watched(&t->completion)) {
    dlk_ticket_ref(t);
    dlk_completions_put(&e->completions, &t->completion);
    dlk_wakeup_note(&e->loop.wakeup);
  }
  dlk_owner_tell_callers(&e->loop);
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
  uint64_t number = dlk_completions_watch(&e->completions, &t->completion);
  return atomic_load(&t->state) >= DLK_TICKET_DONE ? 0 : number;
}

static void drop(struct dlk_completion *one) {
  dlk_ticket_drop_ref(DLK_CONTAINER(one, struct dlk_ticket, completion));
}

size_t dlk_engine_completed(struct dlk_engine *e, uint64_t *ids, size_t max) {
  dlk_wakeup_clear(&e->loop.wakeup);
  return dlk_completions_take(&e->completions, ids, max, drop);
}

void dlk_engine_forget_completed(struct dlk_engine *e) {
  uint64_t ids[64];
  while (dlk_engine_completed(e, ids, 64) > 0)
    continue;
}

void dlk_engine_drop_ready(struct dlk_engine *e) {
  dlk_completions_forget(&e->completions, drop);
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
