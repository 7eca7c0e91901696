/* The etcd store. */
#ifndef DLK_STORE_SESSION_ETCD_ETCD_H
#define DLK_STORE_SESSION_ETCD_ETCD_H

#include "store/store.h"

extern const struct dlk_store_type dlk_etcd_store;

#endif
