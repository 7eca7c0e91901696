/* How a loop begins and ends. */
#ifndef DLK_LOOP_LIFE_H
#define DLK_LOOP_LIFE_H

#include "core/status.h"
#include "loop/loop.h"

/* l: zeroed. It does no I/O and starts no thread. */
bool dlk_loop_init(struct dlk_loop *l, const struct dlk_loop_calls *calls);
void dlk_loop_destroy(struct dlk_loop *l);
/* Makes libuv's loop and starts the renewal thread. shown: the URL. */
bool dlk_loop_open(struct dlk_loop *l, const char *shown,
                   struct dlk_error *err);
/* From now on only the renewal thread runs it. */
void dlk_loop_make_resident(struct dlk_loop *l);
/* From now on no thread enters to use libuv's loop. */
void dlk_loop_set_ended(struct dlk_loop *l);
/* Joins the renewal thread, and waits until nobody owns the loop. */
void dlk_loop_end(struct dlk_loop *l);
/* The same by the renewal thread, which is not joined. */
void dlk_loop_end_by_thread(struct dlk_loop *l);

#endif
