/* TLS between a socket and its user: sends and receives bytes on a connection
 * that is encrypted. sock.c polls. */
#ifndef DLK_NET_SECURE_H
#define DLK_NET_SECURE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/status.h"
#include "net/endpoint.h"

struct dlk_tls_fault;

struct dlk_net_secure;
/* Before anything is sent. NULL and *fault. */
struct dlk_net_secure *dlk_net_secure_new(const struct dlk_net_address *address,
                                          struct dlk_tls_fault *fault);
/* Says good-bye on fd (-1: does not), without waiting, and frees it. NULL is
 * fine. */
void dlk_net_secure_close(struct dlk_net_secure *x, int fd);

enum dlk_net_greeting {
  DLK_NET_GREETED,
  DLK_NET_GREETING, /* again when fd is readable, or `waits` and writable */
  DLK_NET_UNGREETED /* and *fault */
};
enum dlk_net_greeting dlk_net_secure_greet(struct dlk_net_secure *x, int fd,
                                           struct dlk_tls_fault *fault);
/* As send and recv on a socket that does not block: -1 and errno EAGAIN, and
 * EPROTO when TLS itself failed. A recv that gives less than n has given all
 * that came, as recv(2) does. await: fd blocks, and may do so once; also EINTR.
 */
ssize_t dlk_net_secure_send(struct dlk_net_secure *x, int fd, const void *p,
                            size_t n);
ssize_t dlk_net_secure_recv(struct dlk_net_secure *x, int fd, void *p, size_t n,
                            bool await);
/* Sends what is encrypted already, as much as fits. False: an errno. */
bool dlk_net_secure_push(struct dlk_net_secure *x, int fd);
/* Whether it has to be called again as soon as fd is writable: to send, or to
 * go on with what had to stop. */
bool dlk_net_secure_waits(const struct dlk_net_secure *x);
/* Whether receiving had to stop although bytes are there, and may go on. */
bool dlk_net_secure_holds(const struct dlk_net_secure *x);
/* Of a handshake, for the trace: "TLSv1.3, resumed, thread …" */
struct dlk_net_secure_text {
  char text[160];
};
struct dlk_net_secure_text dlk_net_secure_shown(const struct dlk_net_secure *x);
void dlk_net_secure_fault(const struct dlk_net_secure *x,
                          struct dlk_tls_fault *fault);

#endif
