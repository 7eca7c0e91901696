/* The host watches one descriptor for all sockets that speak unasked: a
 * server's messages, and news of another server. */
#ifndef DLK_NET_WAKE_H
#define DLK_NET_WAKE_H

#include "store/host.h"

enum { DLK_NET_WAKE_MESSAGES, DLK_NET_WAKE_NEWS, DLK_NET_WAKE_KINDS };
/* of several servers */
#define DLK_NET_WAKES (64 * DLK_NET_WAKE_KINDS)

struct dlk_net_wake {
  struct dlk_host *host;
  int fds[DLK_NET_WAKES], all; /* an epoll descriptor, or -1 */
};

void dlk_net_wake_init(struct dlk_net_wake *w, struct dlk_host *host);
/* fd: -1 for none. Behind the last place nothing is watched. */
void dlk_net_wake_set(struct dlk_net_wake *w, int which, int fd);

#endif
