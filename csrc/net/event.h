/* News of servers for on_event, which begin with the URL. */
#ifndef DLK_NET_EVENT_H
#define DLK_NET_EVENT_H

#include <stdarg.h>

#include "store/host.h"

/* The URL may be cut, the text up to 700 bytes is not: it ends with the
 * advice. */
void dlk_net_event(struct dlk_host *host, const struct dlk_conf *conf,
                   const char *kind, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* who: what they begin with, in place of the URL. */
void dlk_net_tell(struct dlk_host *host, const char *kind, const char *who,
                  const char *fmt, va_list ap)
    __attribute__((format(printf, 4, 0)));

#endif
