/* One stream socket from look-up to close, on the host's loop: non-blocking,
 * CLOEXEC, no SIGPIPE. With TLS its handshake is a part of connecting, and
 * the bytes here are the plain text. */
#ifndef DLK_NET_SOCK_H
#define DLK_NET_SOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/clock.h"
#include "core/status.h"
#include "net/addresses.h"
#include "net/endpoint.h"

/* A sentence's rest. */
#define DLK_NET_WHY_MAX 384

struct uv_loop_s;
struct dlk_net_sock;

/* None of these is called from inside a function below, nor after close. */
struct dlk_net_sock_events {
  void (*open)(void *arg);
  /* why: a sentence's rest, as "the name of its host cannot be resolved" */
  void (*failed)(void *arg, enum dlk_code code, const char *why);
  void (*readable)(void *arg);
  void (*writable)(void *arg);
  /* An error was reported, and none of these is called any more: read to the
   * end, and close. */
  void (*broken)(void *arg);
};

/* Starts to connect; NULL and *error (an errno) on failure. `address` and
 * `silent` must stay until then or close. Of a name's addresses the one behind
 * `silent` is the first, and one that the system gave up is noted there.
 * io_timeout: how long it may try to get bytes through. *alive is counted up
 * now, and down when nothing is left in the loop; then gone(arg) is called. */
struct dlk_net_sock *dlk_net_sock_open(struct uv_loop_s *loop,
                                       const struct dlk_net_address *address,
                                       struct dlk_net_silent *silent,
                                       int64_t io_timeout,
                                       const struct dlk_net_sock_events *events,
                                       void (*gone)(void *arg), unsigned *alive,
                                       void *arg, int *error);

/* The code of an errno of connecting. */
enum dlk_code dlk_net_sock_code(int error);

/* As send and recv: -1 and errno EAGAIN when it would block. After a send
 * that would have blocked, the socket calls `writable` when there is room. A
 * recv that gives less than n has given all that came. */
ssize_t dlk_net_sock_send(struct dlk_net_sock *s, const void *p, size_t n);
ssize_t dlk_net_sock_recv(struct dlk_net_sock *s, void *p, size_t n);
/* As recv; blocks until something comes, for DLK_AWAIT_MAX at most, then -1 and
 * EAGAIN; also EINTR. */
ssize_t dlk_net_sock_await(struct dlk_net_sock *s, void *p, size_t n);
/* Why the last of them gave 0 or -1 (and errno `error`), in out; hung_up: what
 * is added without TLS. */
enum dlk_code dlk_net_sock_reason(const struct dlk_net_sock *s, ssize_t n,
                                  int error, const char *hung_up,
                                  char out[DLK_NET_WHY_MAX]);
/* Why its time is over: the look-up or the TLS handshake took too long, or else
 * `why`. s may be NULL. */
const char *dlk_net_sock_late(const struct dlk_net_sock *s, const char *why);
/* Its time to connect is over: notes in `silent` where it has not connected
 * yet. s may be NULL. */
void dlk_net_sock_note(const struct dlk_net_sock *s);
int dlk_net_sock_fd(const struct dlk_net_sock *s);
/* Frees it, at once or when the loop has let go of it. NULL is fine. */
void dlk_net_sock_close(struct dlk_net_sock *s);

#endif
