/* A contender from its create to its grant. */
#ifndef DLK_STORE_SESSION_RECIPE_ACQUIRE_H
#define DLK_STORE_SESSION_RECIPE_ACQUIRE_H

#include "store/session/recipe/contender.h"

extern const struct dlk_ss_session_hooks dlk_ss_recipe;

void dlk_ss_acquire(struct dlk_ss_store *st, struct dlk_op *op);

#endif
