/* The renewal thread: see thread.c. */
#ifndef DLK_LOOP_THREAD_H
#define DLK_LOOP_THREAD_H

#include "core/status.h"
#include "loop/loop.h"

/* shown: what the loop is for, for people. */
bool dlk_thread_start(struct dlk_loop *l, const char *shown,
                      struct dlk_error *err);
/* Waits for its end, which comes at once. */
void dlk_thread_join(struct dlk_loop *l);
/* By the thread itself: nobody is going to join it. */
void dlk_thread_detach(struct dlk_loop *l);

#endif
