/* A stream socket as the system has it: made, tuned, and on its way. */
#ifndef DLK_NET_STREAM_H
#define DLK_NET_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Begins to connect; io_timeout: how long it may try to get bytes through. 0
 * and *fd, or an errno. */
int dlk_net_stream_connect(const struct sockaddr *addr, socklen_t len,
                           int64_t io_timeout, int *fd);
/* From now on what does not say MSG_DONTWAIT may block, for DLK_AWAIT_MAX at
 * most. False: it may not. */
bool dlk_net_stream_let_block(int fd);

#endif
