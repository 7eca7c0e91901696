/* Counters and histograms of one engine: see stats.c. */
#ifndef DLK_ENGINE_STATS_H
#define DLK_ENGINE_STATS_H

#include "engine/engine.h"

/* By the loop's owner, as the other. */
void dlk_stats_add(_Atomic uint64_t *counter);
void dlk_stats_put(struct dlk_histogram *h, int64_t ns);

#endif
