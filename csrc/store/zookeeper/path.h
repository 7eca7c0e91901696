/* Which paths the servers take. */
#ifndef DLK_STORE_ZOOKEEPER_PATH_H
#define DLK_STORE_ZOOKEEPER_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* Absolute, no empty, "." or ".." part, no slash at the end, no character that
 * servers refuse; "" is one. */
bool dlk_zk_path_ok(const char *path);

#endif
