/* A peer that is gone without a word is noticed by the kernel: what it does not
 * confirm ends the connection after io_timeout, and on a silent one it is
 * asked. */
#include "net/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/time.h>
#include <unistd.h>

#include "core/clock.h"
#include "store/store.h"

static void option(int fd, int level, int name, int value) {
  (void)setsockopt(fd, level, name, &value, sizeof value);
}

static void tune(int fd, int64_t io_timeout) {
  option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  int ms = (int)(io_timeout / DLK_MS);
  option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, ms > 0 ? ms : 1);
  option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

int dlk_net_stream_connect(const struct sockaddr *addr, socklen_t len,
                           int64_t io_timeout, int *fd) {
  int one =
      socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (one < 0)
    return errno;
  if (addr->sa_family != AF_UNIX)
    tune(one, io_timeout);
  if (connect(one, addr, len) != 0 && errno != EINPROGRESS) {
    int e = errno;
    close(one);
    return e;
  }
  *fd = one;
  return 0;
}

/* libuv only polls, and all else that is read or written says MSG_DONTWAIT. */
bool dlk_net_stream_let_block(int fd) {
  const struct timeval most = {.tv_usec = DLK_AWAIT_MAX / DLK_US};
  int flags = fcntl(fd, F_GETFL);
  return flags >= 0 &&
         setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most) == 0 &&
         fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0;
}
