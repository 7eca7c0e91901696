/* The addresses that a look-up gave for a name, and which of them is connected
 * to next. No network and no time. */
#ifndef DLK_NET_ADDRESSES_H
#define DLK_NET_ADDRESSES_H

#include <netinet/in.h>
#include <sys/socket.h>

#define DLK_NET_ADDRESSES 16

struct addrinfo;

/* The address that was connected to in vain last, in the memory of who connects
 * again and again; all zeros: none. */
struct dlk_net_silent {
  struct sockaddr_storage peer;
  socklen_t len;
};

union dlk_net_inet {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
};

/* All zeros: there are none. */
struct dlk_net_addresses {
  unsigned count, next;
  unsigned left; /* so many had no turn yet */
  union dlk_net_inet all[DLK_NET_ADDRESSES];
};

/* The first ones of the list. */
void dlk_net_addresses_copy(struct dlk_net_addresses *all,
                            const struct addrinfo *list);
/* An attempt begins. */
void dlk_net_addresses_begin(struct dlk_net_addresses *all,
                             const struct dlk_net_silent *silent);
/* NULL: each had its turn. */
const struct sockaddr *dlk_net_addresses_next(struct dlk_net_addresses *all,
                                              socklen_t *len);

#endif
