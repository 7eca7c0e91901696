/* One stream socket from look-up to close: non-blocking, no SIGPIPE. TLS's
 * handshake is a part of connecting. */
#ifndef DLK_NET_SOCK_H
#define DLK_NET_SOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/clock.h"
#include "core/status.h"
#include "net/addresses.h"
#include "net/endpoint.h"

#define DLK_NET_WHY_MAX 384

struct uv_loop_s;
struct dlk_net_sock;

/* Never called inside a function below. */
struct dlk_net_sock_events {
  void (*open)(void *arg);
  /* why: a sentence's rest */
  void (*failed)(void *arg, enum dlk_code code, const char *why);
  void (*readable)(void *arg);
  void (*writable)(void *arg);
  /* An error came, the last call: read to the end, and close. */
  void (*broken)(void *arg);
};

/* Starts to connect, or returns NULL and an errno. `address` and `silent` must
 * stay until then or close. io_timeout bounds unconfirmed bytes. *alive counts
 * up, and down with gone(arg) when the loop has let go. */
struct dlk_net_sock *dlk_net_sock_open(struct uv_loop_s *loop,
                                       const struct dlk_net_address *address,
                                       struct dlk_net_silent *silent,
                                       int64_t io_timeout,
                                       const struct dlk_net_sock_events *events,
                                       void (*gone)(void *arg), unsigned *alive,
                                       void *arg, int *error);

enum dlk_code dlk_net_sock_code(int error);

/* As send and recv; -1 and EAGAIN when it would block, then `writable` comes. A
 * recv of less than n has given all. */
ssize_t dlk_net_sock_send(struct dlk_net_sock *s, const void *p, size_t n);
ssize_t dlk_net_sock_recv(struct dlk_net_sock *s, void *p, size_t n);
/* As recv, within DLK_AWAIT_MAX; also EINTR. */
ssize_t dlk_net_sock_await(struct dlk_net_sock *s, void *p, size_t n);
/* Why the last one gave 0 or -1 (errno `error`); hung_up: added without TLS. */
enum dlk_code dlk_net_sock_reason(const struct dlk_net_sock *s, ssize_t n,
                                  int error, const char *hung_up,
                                  char out[DLK_NET_WHY_MAX]);
/* Why time is over: look-up or TLS handshake, else `why`. s may be NULL. */
const char *dlk_net_sock_late(const struct dlk_net_sock *s, const char *why);
/* Time is over: notes a silent address. s may be NULL. */
void dlk_net_sock_note(const struct dlk_net_sock *s);
int dlk_net_sock_fd(const struct dlk_net_sock *s);
void dlk_net_sock_close(struct dlk_net_sock *s);

#endif
