/* How long a session counts: the chain of confirming writes. */
#ifndef DLK_STORE_ZOOKEEPER_CONFIRM_H
#define DLK_STORE_ZOOKEEPER_CONFIRM_H

#include "store/session/driver.h"

extern const struct dlk_ss_rule dlk_zk_confirm;

#endif
