/* The store of file:// and memory://. */
#ifndef DLK_STORE_FILE_FILE_H
#define DLK_STORE_FILE_FILE_H

#include "store/store.h"

extern const struct dlk_store_type dlk_file_store;

#endif
