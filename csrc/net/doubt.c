/* A Redis port without TLS takes a TLS handshake for the beginning of a
 * command, and waits for its end; a TLS port hangs up at a command. A server
 * that hangs, or a proxy with nothing behind it, does the same. So the port is
 * asked in the other language, on a connection of its own, which disturbs
 * nothing if the first one gets its answer after all.
 *
 * Only an answer that nothing else gives counts: a reply of Redis' begins with
 * '+' or '-' and nothing of TLS does; a record of TLS, be it an alert, has a
 * kind and a version in its head. The questions are the same for everybody and
 * tell nothing. */
#include "net/doubt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

struct dlk_net_doubt {
  uv_poll_t poll; /* first: a handle's address is that of its doubt */
  int fd;
  bool tls, asked, ended;
  dlk_net_doubt_told *told;
  void (*gone)(void *arg); /* NULL: there was no beginning */
  void *arg;
};

/* A ClientHello with two ciphers and nothing else, which any server answers: if
 * not with its own hello, then with an alert. */
static const char hello[] = "\x16\x03\x01\x00\x2f"
                            "\x01\x00\x00\x2b\x03\x03"
                            "dlock asks whether this is TLS. "
                            "\x00"
                            "\x00\x04\xc0\x2f\xc0\x2b"
                            "\x01\x00";
static const char ping[] = "PING\r\n";

static bool ask(const struct dlk_net_doubt *d) {
  const char *text = d->tls ? ping : hello;
  size_t len = d->tls ? sizeof ping - 1 : sizeof hello - 1;
  return send(d->fd, text, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}

/* What came is little, so its beginning is there with it. */
static bool is_other(const struct dlk_net_doubt *d) {
  char head[2];
  ssize_t n = recv(d->fd, head, sizeof head, MSG_DONTWAIT);
  if (d->tls)
    return n > 0 && (head[0] == '+' || head[0] == '-');
  return n == 2 && (head[0] == 0x15 || head[0] == 0x16) && head[1] == 0x03;
}

static void closed(uv_handle_t *h) {
  struct dlk_net_doubt *d = (struct dlk_net_doubt *)(void *)h;
  void (*gone)(void *) = d->gone;
  void *arg = d->arg;
  free(d);
  if (gone)
    gone(arg);
}

void dlk_net_doubt_end(struct dlk_net_doubt *d) {
  if (!d || d->ended)
    return;
  d->ended = true;
  uv_close((uv_handle_t *)&d->poll, closed);
  close(d->fd);
}

static void settle(struct dlk_net_doubt *d, bool other) {
  dlk_net_doubt_end(d); /* the memory stays until the loop goes on */
  d->told(d->arg, other);
}

static void on_poll(uv_poll_t *poll, int status, int events) {
  struct dlk_net_doubt *d = (struct dlk_net_doubt *)(void *)poll;
  (void)events;
  if (d->asked) {
    settle(d, is_other(d));
    return;
  }
  d->asked = true;
  if (status < 0 || !ask(d) ||
      uv_poll_start(&d->poll, UV_READABLE, on_poll) != 0)
    settle(d, false);
}

static int reach(const struct sockaddr *peer, socklen_t len) {
  int kind = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  int fd = socket(peer->sa_family, kind, 0);
  if (fd >= 0 && connect(fd, peer, len) != 0 && errno != EINPROGRESS) {
    close(fd);
    return -1;
  }
  return fd;
}

struct dlk_net_doubt *dlk_net_doubt_new(struct uv_loop_s *loop,
                                        const struct sockaddr *peer,
                                        socklen_t len, bool tls,
                                        dlk_net_doubt_told *told,
                                        void (*gone)(void *arg), void *arg) {
  struct dlk_net_doubt *d = calloc(1, sizeof *d);
  int fd = d ? reach(peer, len) : -1;
  if (fd >= 0 && uv_poll_init(loop, &d->poll, fd) == 0) {
    d->fd = fd;
    d->tls = tls;
    d->told = told;
    d->arg = arg;
    if (uv_poll_start(&d->poll, UV_WRITABLE, on_poll) == 0) {
      d->gone = gone;
      return d;
    }
    dlk_net_doubt_end(d);
    return NULL;
  }
  if (fd >= 0)
    close(fd);
  free(d);
  return NULL;
}
