/* Who runs the loop: see owner.c. */
#ifndef DLK_LOOP_OWNER_H
#define DLK_LOOP_OWNER_H

#include "loop/loop.h"

/* ---- by any thread ---- */

/* Wakes the owner; wake: without one, the renewal thread. False: it was queued
 * already, or the loop has ended. */
bool dlk_owner_post(struct dlk_loop *l, struct dlk_post *post, bool wake);
/* Wakes the renewal thread, because no caller runs the loop for new work. */
void dlk_owner_look(struct dlk_loop *l);
/* What a caller waits for may have come. */
void dlk_owner_tell_callers(struct dlk_loop *l);
/* Runs the loop, or has the renewal thread do so, until *state ≥ end or for
 * `slice` ns. */
void dlk_owner_drive(struct dlk_loop *l, const atomic_int *state, int end,
                     int64_t slice);

bool dlk_owner_take(struct dlk_loop *l, enum dlk_owner who); /* if free */
void dlk_owner_leave(struct dlk_loop *l);
/* Takes it for a write, if no thread owns it or waits and no post is queued. */
bool dlk_owner_enter(struct dlk_loop *l, bool resident);
/* To a caller that runs it later. waits: it awaits something. */
void dlk_owner_leave_to_caller(struct dlk_loop *l, bool waits);
/* Resident: wakes the renewal thread for anything to do. */
void dlk_owner_leave_to_thread(struct dlk_loop *l);

/* ---- by the owner ---- */

/* One round: what is due, libuv, posts. It sleeps only in UV_RUN_ONCE. */
void dlk_owner_turn(struct dlk_loop *l, uv_run_mode mode);
/* False: nothing was due. */
bool dlk_owner_run_due(struct dlk_loop *l, int64_t now);
/* Waits for one answer without libuv. False: the loop has to be run. */
bool dlk_await(struct dlk_loop *l, int64_t now);
/* Nothing is to be done before the loop's descriptor or a timer says so. */
bool dlk_owner_at_rest(struct dlk_loop *l);

/* ---- once `ended` is set ---- */

/* Takes it as soon as nobody owns it. */
void dlk_owner_await(struct dlk_loop *l);
void dlk_owner_end(struct dlk_loop *l);

#endif
