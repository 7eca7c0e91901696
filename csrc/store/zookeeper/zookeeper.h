/* The ZooKeeper store: zookeeper://host1,host2[/chroot]. */
#ifndef DLK_STORE_ZOOKEEPER_ZOOKEEPER_H
#define DLK_STORE_ZOOKEEPER_ZOOKEEPER_H

#include "store/store.h"

extern const struct dlk_store_type dlk_zookeeper_store;

#endif
