/* Lists of servers: "h1:2181,h2:2181". Copies are the caller's; NULL: no
 * memory. */
#ifndef DLK_STORE_ZOOKEEPER_CLIENT_HOSTS_H
#define DLK_STORE_ZOOKEEPER_CLIENT_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

/* Odd in number: lot picks one host to stand twice. */
char *dlk_zk_hosts_odd(const char *hosts, uint32_t lot);
/* Spelled so that the library takes it here. look_up: names as addresses;
 * blocks. */
char *dlk_zk_hosts_spelled(const char *hosts, bool look_up);
#define DLK_ZK_SHUT (-1)
/* Why no session opens. DLK_ZK_SHUT: a server closes new connections at once;
 * an errno: the system refuses each host for good; 0: not known. Blocks for two
 * seconds and look-ups. */
int dlk_zk_hosts_trouble(const char *hosts);

#endif
