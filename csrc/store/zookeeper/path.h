/* Paths that servers take. */
#ifndef DLK_STORE_ZOOKEEPER_PATH_H
#define DLK_STORE_ZOOKEEPER_PATH_H

#include <stdbool.h>

/* An absolute path by the servers' rules, or "". */
bool dlk_zk_path_ok(const char *path);

#endif
