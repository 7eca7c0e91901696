/* Each library has its own flag, set before another thread runs. One write(2)
 * puts out a line, shorter than PIPE_BUF, so that lines do not mix. Its time is
 * on the clock of all processes, or a simulation's. */
#include "core/trace.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/quiet.h"
#include "core/status.h"

#define LINE_MAX_BYTES 512

atomic_bool dlk_trace_on;

__attribute__((constructor)) static void look(void) {
  const char *said = getenv("DLOCK_TRACE");
  atomic_store(&dlk_trace_on, said && strcmp(said, "1") == 0);
}

/* Without the locale's decimal comma. */
struct dlk_trace_ms dlk_trace_ms(int64_t ns) {
  struct dlk_trace_ms out;
  if (ns == DLK_FOREVER)
    snprintf(out.text, sizeof out.text, "infinite");
  else
    snprintf(out.text, sizeof out.text, "%lld.%03lld", (long long)(ns / DLK_MS),
             (long long)(ns % DLK_MS / DLK_US));
  return out;
}

static size_t used(int n, size_t room) {
  if (n < 0)
    return 0;
  return (size_t)n < room ? (size_t)n : room - 1;
}

void dlk_trace_line(int64_t now, const char *room, const char *event,
                    const char *key, size_t len, const char *fmt, ...) {
  int problem = errno;
  char line[LINE_MAX_BYTES], quoted[DLK_QUOTED_MAX];
  size_t most = sizeof line - 1; /* and the line's end */
  size_t n =
      used(snprintf(line, most, "dlock %ld %s %s %s %s: ", (long)getpid(),
                    dlk_trace_ms(now).text, room, event,
                    dlk_quote(quoted, key, len)),
           most);
  va_list ap;
  va_start(ap, fmt);
  n += used(vsnprintf(line + n, most - n, fmt, ap), most - n);
  va_end(ap);
  line[n++] = '\n';
  ssize_t written = dlk_quiet_write(STDERR_FILENO, line, n);
  (void)written; /* nobody to tell */
  errno = problem;
}
