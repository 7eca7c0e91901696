/* Lines of the trace about nodes. */
#ifndef DLK_STORE_SESSION_FORMAT_TRACED_H
#define DLK_STORE_SESSION_FORMAT_TRACED_H

#include "core/trace.h"

/* As dlk_trace_line, with the node's path for the key; NULL: none. room: whose
 * line it is. Call it
 * behind DLK_TRACING. */
void dlk_ss_trace(const char *room, int64_t now, const char *event,
                  const char *path, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

#endif
