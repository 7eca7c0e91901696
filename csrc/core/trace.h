/* With DLOCK_TRACE=1 in the environment, dlock writes a line on stderr for each
 * step of a request. */
#ifndef DLK_CORE_TRACE_H
#define DLK_CORE_TRACE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Constant once the library is loaded; atomic because tools see no order
 * between the loading thread and the others. */
extern atomic_bool dlk_trace_on __attribute__((visibility("hidden")));

/* While it is off, this is a branch and evaluates no argument. */
#define DLK_TRACING                                                            \
  __builtin_expect(atomic_load_explicit(&dlk_trace_on, memory_order_relaxed), 0)
#define DLK_TRACE(...)                                                         \
  do {                                                                         \
    if (DLK_TRACING)                                                           \
      dlk_trace_line(__VA_ARGS__);                                             \
  } while (0)

/* now: the teller's clock; room: the folder of csrc; key: as for dlk_quote. No
 * argument may hold a secret or a whole token. */
void dlk_trace_line(int64_t now, const char *room, const char *event,
                    const char *key, size_t len, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));

/* Milliseconds as text, valid in the same expression. */
struct dlk_trace_ms {
  char text[32];
};
struct dlk_trace_ms dlk_trace_ms(int64_t ns);

#endif
