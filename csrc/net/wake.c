/* Only two sockets need an epoll descriptor. Without one (a process at its
 * limit) news is seen when the loop runs next. */
#include "net/wake.h"

#include <sys/epoll.h>
#include <unistd.h>

void dlk_net_wake_init(struct dlk_net_wake *w, struct dlk_host *host) {
  w->host = host;
  w->both = -1;
  for (int i = 0; i < DLK_NET_WAKES; i++)
    w->fds[i] = -1;
}

/* Returns -1 on failure. */
static int epoll_of(const int *fds) {
  int e = epoll_create1(EPOLL_CLOEXEC);
  for (int i = 0; e >= 0 && i < DLK_NET_WAKES; i++) {
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_ctl(e, EPOLL_CTL_ADD, fds[i], &event) != 0) {
      close(e);
      e = -1;
    }
  }
  return e;
}

void dlk_net_wake_set(struct dlk_net_wake *w, int which, int fd) {
  int a, b, before = w->both;
  w->fds[which] = fd;
  a = w->fds[DLK_NET_WAKE_MESSAGES];
  b = w->fds[DLK_NET_WAKE_NEWS];
  w->both = a >= 0 && b >= 0 ? epoll_of(w->fds) : -1;
  w->host->watch(w->host, w->both >= 0 ? w->both : a >= 0 ? a : b);
  if (before >= 0)
    close(before);
}
