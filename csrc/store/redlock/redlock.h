/* Locks by a majority of independent Redis servers. */
#ifndef DLK_STORE_REDLOCK_REDLOCK_H
#define DLK_STORE_REDLOCK_REDLOCK_H

#include "store/store.h"

extern const struct dlk_store_type dlk_redlock_store;

#endif
