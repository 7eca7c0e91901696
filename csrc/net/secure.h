/* TLS on a socket's descriptor; sock.c polls. */
#ifndef DLK_NET_SECURE_H
#define DLK_NET_SECURE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/status.h"
#include "net/endpoint.h"

struct dlk_tls_fault;

struct dlk_net_secure;
/* NULL and *fault: it cannot. */
struct dlk_net_secure *dlk_net_secure_new(const struct dlk_net_address *address,
                                          struct dlk_tls_fault *fault);
/* Says good-bye on fd, unless that is -1, without waiting. */
void dlk_net_secure_close(struct dlk_net_secure *x, int fd);

enum dlk_net_greeting {
  DLK_NET_GREETED,
  DLK_NET_GREETING, /* again when readable, or `waits` and writable */
  DLK_NET_UNGREETED
};
enum dlk_net_greeting dlk_net_secure_greet(struct dlk_net_secure *x, int fd,
                                           struct dlk_tls_fault *fault);
/* As send and recv without blocking; errno EPROTO when TLS failed. A recv of
 * less than n gave all. `await` may block once. */
ssize_t dlk_net_secure_send(struct dlk_net_secure *x, int fd, const void *p,
                            size_t n);
ssize_t dlk_net_secure_recv(struct dlk_net_secure *x, int fd, void *p, size_t n,
                            bool await);
/* Sends what is encrypted, if it fits; false: errno. */
bool dlk_net_secure_push(struct dlk_net_secure *x, int fd);
/* To be called again when fd is writable. */
bool dlk_net_secure_waits(const struct dlk_net_secure *x);
/* Bytes are left, and it may go on. */
bool dlk_net_secure_holds(const struct dlk_net_secure *x);
/* For the trace: "TLSv1.3, resumed, thread …" */
struct dlk_net_secure_text {
  char text[160];
};
struct dlk_net_secure_text dlk_net_secure_shown(const struct dlk_net_secure *x);
void dlk_net_secure_fault(const struct dlk_net_secure *x,
                          struct dlk_tls_fault *fault);

#endif
