/* Consul as the recipe's driver. */
#ifndef DLK_STORE_SESSION_CONSUL_DRIVER_H
#define DLK_STORE_SESSION_CONSUL_DRIVER_H

#include "store/session/driver.h"

extern const struct dlk_ss_driver dlk_consul_driver; /* client: see link.h */

#endif
