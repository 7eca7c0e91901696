/* The renewal thread, from its start to its end. */
#ifndef DLK_LOOP_THREAD_H
#define DLK_LOOP_THREAD_H

#include "core/status.h"
#include "loop/loop.h"

/* shown: the URL. */
bool dlk_thread_start(struct dlk_loop *l, const char *shown,
                      struct dlk_error *err);
/* Ends it first. */
void dlk_thread_join(struct dlk_loop *l);
/* By the thread itself. */
void dlk_thread_detach(struct dlk_loop *l);

#endif
