/* A caller who waits for the one answer that is under way reads it himself,
 * blocked in the connection's socket, instead of asking libuv's loop where
 * something came from: of an uncontended lock that is half of the system calls
 * for reading. He does it only as long as nothing else can need him, for
 * DLK_AWAIT_MAX at most; then, or when that is not so, the loop is run.
 *
 * What else could need him, and why it is not missed:
 * - Another request, a renewal, something in the background: each counts as
 *   work, so there is more than one.
 * - A timer, the end of his slice (after which signals and callbacks have their
 *   turn): none is due before DLK_AWAIT_MAX, and only the owner sets timers.
 * - A post: there is none, or the loop is run. One that comes while he reads
 *   kicks the loop, which he does not hear: it waits for the answer, or for
 *   DLK_AWAIT_MAX. Behind that he looks into the inbox, as ever: before the
 *   next wait here, or when he leaves the loop.
 * - A caller of another thread who waits for the loop: there is none, or the
 *   loop is run and he is looked after as ever. One who comes later waits as a
 *   post does.
 * - Messages on another socket, a socket that is being opened or closed, a
 *   look-up that is over: libuv's loop was run less than DLK_AWAIT_MAX ago, so
 *   none waits for longer than twice that, in a tight loop of pairs too.
 * - A signal ends the read, and the loop is run to the end of the slice.
 *
 * In resident mode nobody waits so: the renewal thread does not own the loop
 * while it sleeps, or nobody else could write. */
#include "loop/await.h"

bool dlk_await(struct dlk_loop *l, int64_t now) {
  int64_t until = now + DLK_AWAIT_MAX;
  if (!l->await || l->work != 1 || until > l->slice_end ||
      now - l->turned > DLK_AWAIT_MAX || until > dlk_timers_next(&l->timers) ||
      !dlk_inbox_empty(&l->inbox) || atomic_load(&l->callers_waiting) > 0 ||
      atomic_load(&l->resident) || !l->await(l->flush_of))
    return false;
  dlk_inbox_run(&l->inbox);
  dlk_wakeup_flush(&l->wakeup);
  return true;
}
