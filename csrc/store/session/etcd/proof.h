/* How long a session counts. */
#ifndef DLK_STORE_SESSION_ETCD_PROOF_H
#define DLK_STORE_SESSION_ETCD_PROOF_H

#include "store/session/driver.h"

extern const struct dlk_ss_rule dlk_etcd_proof;

#endif
