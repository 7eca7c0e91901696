/* The MySQL and MariaDB store. */
#ifndef DLK_STORE_SQL_MYSQL_MYSQL_H
#define DLK_STORE_SQL_MYSQL_MYSQL_H

#include "store/store.h"

extern const struct dlk_store_type dlk_mysql_store;

#endif
