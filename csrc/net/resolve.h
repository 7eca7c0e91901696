/* Looks up a host's name. A resolver may take half a minute; no caller, loop or
 * process waits for its end. */
#ifndef DLK_NET_RESOLVE_H
#define DLK_NET_RESOLVE_H

#include "net/addresses.h"

struct uv_loop_s;
struct dlk_net_lookup;

/* status: getaddrinfo's. Called once, in the loop, unless it was ended before.
 */
typedef void dlk_net_found(void *arg, int status,
                           const struct dlk_net_addresses *found);

/* Begins; 0 and *out, or an errno. gone(arg) is called, later and from the
 * loop, when nothing of it is left there. */
int dlk_net_lookup_start(struct uv_loop_s *loop, const char *host,
                         const char *port, dlk_net_found *found,
                         void (*gone)(void *arg), void *arg,
                         struct dlk_net_lookup **out);
/* The caller wants no answer any more. Also inside or after `found`. */
void dlk_net_lookup_end(struct dlk_net_lookup *l);

#endif
