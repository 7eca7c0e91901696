/* The host watches one descriptor for the two sockets that speak unasked:
 * messages, and a Sentinel's news of another primary. */
#ifndef DLK_NET_WAKE_H
#define DLK_NET_WAKE_H

#include "store/store.h"

enum { DLK_NET_WAKE_MESSAGES, DLK_NET_WAKE_NEWS, DLK_NET_WAKES };

struct dlk_net_wake {
  struct dlk_host *host;
  int fds[DLK_NET_WAKES], both; /* an epoll descriptor, or -1 */
};

void dlk_net_wake_init(struct dlk_net_wake *w, struct dlk_host *host);
/* fd: -1 for none. */
void dlk_net_wake_set(struct dlk_net_wake *w, int which, int fd);

#endif
