/* Who runs the loop: see owner.c. */
#ifndef DLK_LOOP_OWNER_H
#define DLK_LOOP_OWNER_H

#include "loop/loop.h"

/* ---- from any thread ---- */

/* Puts a post into the inbox and wakes the owner. wake: have the renewal thread
 * run it if there is no owner. False if it was queued already, or the loop has
 * ended. */
bool dlk_owner_post(struct dlk_loop *l, struct dlk_post *post, bool wake);
/* Nobody is going to run the loop for what was just started. */
void dlk_owner_look(struct dlk_loop *l);
/* What a caller waits for may have come. */
void dlk_owner_tell_callers(struct dlk_loop *l);
/* Runs the loop until *state is at least `end` or a slice of so many ns has
 * passed, or lets the renewal thread do so. */
void dlk_owner_drive(struct dlk_loop *l, const atomic_int *state, int end,
                     int64_t slice);

/* ---- taking the loop and leaving it ---- */

bool dlk_owner_take(struct dlk_loop *l, enum dlk_owner who); /* if free */
void dlk_owner_leave(struct dlk_loop *l);
/* Takes it if nobody owns it, nobody waits for it and nothing is queued before;
 * for what takes no longer than a write. */
bool dlk_owner_enter(struct dlk_loop *l, bool resident);
/* Leaves it to its caller, who comes back to run it; waits: there is something
 * that he waits for. */
void dlk_owner_leave_to_caller(struct dlk_loop *l, bool waits);
/* Resident: leaves it to the renewal thread, if there is anything to do. */
void dlk_owner_leave_to_thread(struct dlk_loop *l);

/* ---- by the owner ---- */

/* One round: what is due, libuv, posts. It sleeps only in UV_RUN_ONCE. */
void dlk_owner_turn(struct dlk_loop *l, uv_run_mode mode);
/* What is due at that time; false: nothing was. */
bool dlk_owner_run_due(struct dlk_loop *l, int64_t now);
/* Waits for one answer without libuv, until `slice_end`. False: the loop has to
 * be run, since nothing came, or since something else may need the owner. */
bool dlk_await(struct dlk_loop *l, int64_t now);
/* Nothing is to be done before the loop's descriptor or a timer (which may be
 * due: leaving the loop sees to it) says so. */
bool dlk_owner_at_rest(struct dlk_loop *l);

/* ---- the end, once `ended` is set ---- */

/* Takes the loop as soon as nobody owns it. */
void dlk_owner_await(struct dlk_loop *l);
/* Leaves it for the last time. */
void dlk_owner_end(struct dlk_loop *l);

#endif
