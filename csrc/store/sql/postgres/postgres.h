/* The PostgreSQL store. */
#ifndef DLK_STORE_SQL_POSTGRES_POSTGRES_H
#define DLK_STORE_SQL_POSTGRES_POSTGRES_H

#include "store/store.h"

extern const struct dlk_store_type dlk_postgres_store;

#endif
