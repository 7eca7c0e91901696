/* One stream socket from look-up to close, on the host's loop: non-blocking,
 * CLOEXEC, no SIGPIPE. TLS will be another way to send and receive in here. */
#ifndef DLK_STORE_REDIS_SOCK_H
#define DLK_STORE_REDIS_SOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/clock.h"
#include "core/status.h"
#include "store/redis/conn/endpoint.h"

struct uv_loop_s;
struct dlk_redis_sock;

/* None of these is called from inside a function below, nor after close. */
struct dlk_redis_sock_events {
  void (*open)(void *arg);
  /* why: a sentence's rest, as "the name of its host cannot be resolved" */
  void (*failed)(void *arg, const char *why);
  void (*readable)(void *arg);
  void (*writable)(void *arg);
  /* An error was reported, and none of these is called any more: read to the
   * end, and close. */
  void (*broken)(void *arg);
};

/* Starts to connect; `address` must stay until then or close. io_timeout: how
 * long the system may try to get bytes through. *alive is counted up now and
 * down when nothing is left in the loop; then gone(arg) is called. NULL and
 * *why on failure. */
struct dlk_redis_sock *
dlk_redis_sock_open(struct uv_loop_s *loop,
                    const struct dlk_redis_address *address, int64_t io_timeout,
                    const struct dlk_redis_sock_events *events,
                    void (*gone)(void *arg), unsigned *alive, void *arg,
                    char why[DLK_REASON_MAX]);

/* As send and recv: -1 and errno EAGAIN when it would block. What the socket
 * waits for then is its own affair; after a send that would have blocked it
 * calls `writable` when there is room. */
ssize_t dlk_redis_sock_send(struct dlk_redis_sock *s, const void *p, size_t n);
ssize_t dlk_redis_sock_recv(struct dlk_redis_sock *s, void *p, size_t n);
/* As recv; blocks until something comes, for DLK_AWAIT_MAX at most, then -1 and
 * EAGAIN; also EINTR. */
ssize_t dlk_redis_sock_await(struct dlk_redis_sock *s, void *p, size_t n);
int dlk_redis_sock_fd(const struct dlk_redis_sock *s);
/* Frees it, at once or when the loop has let go of it. NULL is fine. */
void dlk_redis_sock_close(struct dlk_redis_sock *s);

#endif
