/* A name's addresses, and which is connected to next. No network, no time. */
#ifndef DLK_NET_ADDRESSES_H
#define DLK_NET_ADDRESSES_H

#include <netinet/in.h>
#include <sys/socket.h>

#define DLK_NET_ADDRESSES 16

struct addrinfo;

/* The last address that stayed silent, kept from attempt to attempt; zeros:
 * none. */
struct dlk_net_silent {
  struct sockaddr_storage peer;
  socklen_t len;
};

union dlk_net_inet {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
};

struct dlk_net_addresses {
  unsigned count, next;
  unsigned left; /* had no turn yet */
  union dlk_net_inet all[DLK_NET_ADDRESSES];
};

/* Takes the first ones of the list. */
void dlk_net_addresses_copy(struct dlk_net_addresses *all,
                            const struct addrinfo *list);
void dlk_net_addresses_begin(struct dlk_net_addresses *all,
                             const struct dlk_net_silent *silent);
/* Returns NULL when each had its turn. */
const struct sockaddr *dlk_net_addresses_next(struct dlk_net_addresses *all,
                                              socklen_t *len);

#endif
