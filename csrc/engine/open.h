/* An engine's birth and first use: see open.c. */
#ifndef DLK_ENGINE_OPEN_H
#define DLK_ENGINE_OPEN_H

#include "engine/state.h"

/* Sees to its loop and its thread. */
bool dlk_engine_first_use(struct dlk_engine *e, struct dlk_error *err);

#endif
