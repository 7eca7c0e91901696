/* ZooKeeper as the recipe's driver. */
#ifndef DLK_STORE_ZOOKEEPER_DRIVER_H
#define DLK_STORE_ZOOKEEPER_DRIVER_H

#include "store/session/driver.h"

/* Shared by a store's sessions; owns its strings. */
struct dlk_zk_client {
  char *hosts;  /* "h1:2181,h2:2181" */
  char *auth;   /* "user:password", or NULL */
  char *chroot; /* "/app", or "" */
  bool closed;  /* its nodes are for that user alone */
  bool plain;   /* no server has containers */
};

extern const struct dlk_ss_driver dlk_zk_driver;

#endif
