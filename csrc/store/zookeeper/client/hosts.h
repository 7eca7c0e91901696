/* Lists of servers, "h1:2181,h2:2181", as the client library is given them.
 * Each copy is the caller's; NULL: no memory. */
#ifndef DLK_STORE_ZOOKEEPER_CLIENT_HOSTS_H
#define DLK_STORE_ZOOKEEPER_CLIENT_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

/* A copy; of an even number one host, the lot says which, stands in it twice.
 */
char *dlk_zk_hosts_odd(const char *hosts, uint32_t lot);
/* A copy in which each address is spelled so that the library takes it on this
 * machine. look_up: names, too, are replaced by their addresses; this blocks.
 */
char *dlk_zk_hosts_spelled(const char *hosts, bool look_up);
/* Connects to each and says whether one closes the connection at once. Blocks
 * for two seconds at most, and while names are looked up. */
bool dlk_zk_hosts_shut(const char *hosts);

#endif
