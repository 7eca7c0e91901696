/* Counters and histograms of one engine: see stats.c. */
#ifndef DLK_ENGINE_STATS_H
#define DLK_ENGINE_STATS_H

#include "engine/engine.h"

/* All by the loop's owner. */
void dlk_stats_acquired(struct dlk_stats *s, enum dlk_code code);
void dlk_stats_waited(struct dlk_stats *s, int64_t ns);
void dlk_stats_began(struct dlk_stats *s);
void dlk_stats_ended(struct dlk_stats *s, int64_t held_ns);
void dlk_stats_lost(struct dlk_stats *s); /* of those that ended */
void dlk_stats_renewed(struct dlk_stats *s, bool ok);
void dlk_stats_handed_over(struct dlk_stats *s);

#endif
