/* The Consul store. */
#ifndef DLK_STORE_SESSION_CONSUL_CONSUL_H
#define DLK_STORE_SESSION_CONSUL_CONSUL_H

#include "store/store.h"

extern const struct dlk_store_type dlk_consul_store;

#endif
