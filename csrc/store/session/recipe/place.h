/* A contender's place in the queue. */
#ifndef DLK_STORE_SESSION_RECIPE_PLACE_H
#define DLK_STORE_SESSION_RECIPE_PLACE_H

#include "store/session/recipe/contender.h"

/* A try looks before it writes. */
void dlk_ss_place_peek(struct dlk_ss_contender *n);
bool dlk_ss_place_list(struct dlk_ss_contender *n);
void dlk_ss_place_relist(struct dlk_ss_contender *n);
/* A watch on those ahead: armed, or over. */
void dlk_ss_place_armed(struct dlk_ss_contender *n,
                        const struct dlk_ss_sight *sight);
void dlk_ss_place_changed(struct dlk_ss_contender *n, enum dlk_ss_rc rc);

#endif
