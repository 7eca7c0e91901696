/* A write to a pipe that nobody reads any more raises SIGPIPE, which ends a
 * program that does not know of it. Between the two calls this thread gets
 * none, and how the program handles the signal is not touched. */
#ifndef DLK_CORE_QUIET_H
#define DLK_CORE_QUIET_H

#include <signal.h>
#include <stdbool.h>

struct dlk_quiet {
  sigset_t old;
  bool pending; /* one that somebody else waits for */
};

void dlk_quiet_begin(struct dlk_quiet *s);
/* raised: a write may have failed with EPIPE; its signal is taken back. */
void dlk_quiet_end(const struct dlk_quiet *s, bool raised);

#endif
