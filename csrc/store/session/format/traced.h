/* Trace lines about nodes. */
#ifndef DLK_STORE_SESSION_FORMAT_TRACED_H
#define DLK_STORE_SESSION_FORMAT_TRACED_H

#include "core/trace.h"

/* As dlk_trace_line, with a path (or NULL) for the key. Call it behind
 * DLK_TRACING. */
void dlk_ss_trace(const char *room, int64_t now, const char *event,
                  const char *path, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

#endif
