/* Which of the two a port speaks, TLS or Redis' protocol as it is, when it
 * seems to be the one that the URL does not say. */
#ifndef DLK_NET_DOUBT_H
#define DLK_NET_DOUBT_H

#include <stdbool.h>
#include <sys/socket.h>

#include "core/status.h"

struct uv_loop_s;
struct dlk_net_doubt;

/* other: whether it speaks what the URL does not say. Called once, from the
 * loop, unless it was ended before. */
typedef void dlk_net_doubt_told(void *arg, bool other);

/* Asks who is at `peer`. tls: the URL says TLS. gone(arg) is called, later and
 * from the loop, when nothing of it is left there. NULL: it cannot be asked. */
struct dlk_net_doubt *dlk_net_doubt_new(struct uv_loop_s *loop,
                                        const struct sockaddr *peer,
                                        socklen_t len, bool tls,
                                        dlk_net_doubt_told *told,
                                        void (*gone)(void *arg), void *arg);
/* Frees it, when the loop has let go of it; also inside `told`. NULL is fine.
 */
void dlk_net_doubt_end(struct dlk_net_doubt *d);

#endif
