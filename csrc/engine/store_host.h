/* What the engine is to a store: see store_host.c. */
#ifndef DLK_ENGINE_STORE_HOST_H
#define DLK_ENGINE_STORE_HOST_H

#include "store/store.h"

void dlk_host_init(struct dlk_host *host);

#endif
