/* A connection's news for on_event, which begin with the URL, or with that and
 * the server that was reached. */
#ifndef DLK_NET_EVENT_H
#define DLK_NET_EVENT_H

#include "store/host.h"

/* The URL may be cut, the text up to 700 bytes is not: it ends with the
 * advice. */
void dlk_net_event(struct dlk_host *host, const struct dlk_conf *conf,
                   const char *kind, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

struct dlk_net_conn;
void dlk_net_conn_event(const struct dlk_net_conn *c, const char *kind,
                        const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
