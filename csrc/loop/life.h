/* A loop's birth, first use and end: see life.c. */
#ifndef DLK_LOOP_LIFE_H
#define DLK_LOOP_LIFE_H

#include "core/status.h"
#include "loop/loop.h"

/* All zeros before. No I/O, no thread: that is dlk_loop_open's. */
bool dlk_loop_init(struct dlk_loop *l, const struct dlk_loop_calls *calls);
/* Nobody is left who knows it. */
void dlk_loop_destroy(struct dlk_loop *l);
/* Makes libuv's loop and starts the renewal thread. shown: what it is for. */
bool dlk_loop_open(struct dlk_loop *l, const char *shown,
                   struct dlk_error *err);
/* From now on the renewal thread runs it all the time. */
void dlk_loop_make_resident(struct dlk_loop *l);
/* From now on nobody enters who would use libuv's loop. */
void dlk_loop_set_ended(struct dlk_loop *l);
/* Ends it: joins the renewal thread, and waits until nobody owns it. */
void dlk_loop_end(struct dlk_loop *l);
/* The same by the renewal thread, which owns it: nobody joins it. */
void dlk_loop_end_by_thread(struct dlk_loop *l);

#endif
