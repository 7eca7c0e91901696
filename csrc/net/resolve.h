/* Looks a name up. A resolver may take half a minute; no caller, loop or
 * process waits for it. */
#ifndef DLK_NET_RESOLVE_H
#define DLK_NET_RESOLVE_H

#include "net/addresses.h"

struct uv_loop_s;
struct dlk_net_lookup;

/* Called once, in the loop, unless ended before. status: getaddrinfo's. */
typedef void dlk_net_found(void *arg, int status,
                           const struct dlk_net_addresses *found);

/* Returns 0 and *out, or an errno. The loop calls gone(arg) when nothing of it
 * is left there. */
int dlk_net_lookup_start(struct uv_loop_s *loop, const char *host,
                         const char *port, dlk_net_found *found,
                         void (*gone)(void *arg), void *arg,
                         struct dlk_net_lookup **out);
/* Also inside or after `found`. */
void dlk_net_lookup_end(struct dlk_net_lookup *l);

#endif
