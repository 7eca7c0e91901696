/* A contender from its create to its grant. */
#ifndef DLK_STORE_SESSION_RECIPE_ACQUIRE_H
#define DLK_STORE_SESSION_RECIPE_ACQUIRE_H

#include "store/session/recipe/contender.h"

/* What the recipe wants to hear of each session. */
extern const struct dlk_zk_session_hooks dlk_zk_recipe;

void dlk_zk_acquire(struct dlk_zk_store *st, struct dlk_op *op);

#endif
