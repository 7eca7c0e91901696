/* Several sockets need an epoll descriptor. Without one (a process at its
 * limit) news is seen when the loop runs next. */
#include "net/wake.h"

#include <sys/epoll.h>
#include <unistd.h>

void dlk_net_wake_init(struct dlk_net_wake *w, struct dlk_host *host) {
  w->host = host;
  w->all = -1;
  for (int i = 0; i < DLK_NET_WAKES; i++)
    w->fds[i] = -1;
}

/* Returns -1 on failure. */
static int epoll_of(const int *fds) {
  int e = epoll_create1(EPOLL_CLOEXEC);
  for (int i = 0; e >= 0 && i < DLK_NET_WAKES; i++) {
    struct epoll_event event = {.events = EPOLLIN};
    if (fds[i] >= 0 && epoll_ctl(e, EPOLL_CTL_ADD, fds[i], &event) != 0) {
      close(e);
      e = -1;
    }
  }
  return e;
}

void dlk_net_wake_set(struct dlk_net_wake *w, int which, int fd) {
  int before = w->all, first = -1, count = 0;
  if (which >= DLK_NET_WAKES)
    return;
  w->fds[which] = fd;
  for (int i = DLK_NET_WAKES - 1; i >= 0; i--) {
    count += w->fds[i] >= 0;
    first = w->fds[i] >= 0 ? w->fds[i] : first;
  }
  w->all = count > 1 ? epoll_of(w->fds) : -1;
  w->host->watch(w->host, w->all >= 0 ? w->all : first);
  if (before >= 0)
    close(before);
}
