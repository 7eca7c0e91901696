/* Events of a server for the user's on_event. */
#ifndef DLK_NET_EVENT_H
#define DLK_NET_EVENT_H

#include "store/store.h"

/* The text, at most 700 bytes of it, behind the URL. That is cut and the text
 * is not, so under any URL it ends with what is to be done. */
void dlk_net_event(struct dlk_host *host, const struct dlk_conf *conf,
                   const char *kind, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
