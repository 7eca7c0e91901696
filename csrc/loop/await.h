/* Waiting for one answer without libuv: see await.c. */
#ifndef DLK_LOOP_AWAIT_H
#define DLK_LOOP_AWAIT_H

#include "loop/loop.h"

/* By the owner, who waits until `slice_end`. False: libuv's loop has to be run,
 * since nothing came, or since something else may need the owner. */
bool dlk_await(struct dlk_loop *l, int64_t now);

#endif
