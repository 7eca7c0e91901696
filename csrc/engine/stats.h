/* Writes the counters and histograms that stats() reads. */
#ifndef DLK_ENGINE_STATS_H
#define DLK_ENGINE_STATS_H

#include "engine/engine.h"

/* For the loop's owner. */
void dlk_stats_add(_Atomic uint64_t *counter);
void dlk_stats_put(struct dlk_histogram *h, int64_t ns);

#endif
