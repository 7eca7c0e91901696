/* etcd as the recipe's driver. */
#ifndef DLK_STORE_SESSION_ETCD_DRIVER_H
#define DLK_STORE_SESSION_ETCD_DRIVER_H

#include "net/tls.h"
#include "store/session/driver.h"
#include "store/session/etcd/conn/grpc.h"

#define DLK_ETCD_TEXTS 16

/* Shared by a store's sessions. */
struct dlk_etcd_client {
  struct dlk_host *host;
  struct dlk_conf conf;
  struct dlk_net_tls *tls;         /* or NULL */
  struct dlk_net_address *members; /* conf.host_count of them */
  char *base;                      /* the folder of all locks */
  char *texts[DLK_ETCD_TEXTS];     /* servers' words, kept for replies */
  struct dlk_list links;           /* open */
};

extern const struct dlk_ss_driver dlk_etcd_driver;
extern const struct dlk_ss_rule dlk_etcd_proof;

#endif
