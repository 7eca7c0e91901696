/* Writes that raise no signal. One to a pipe that nobody reads any more raises
 * SIGPIPE, and one beyond the largest file that the process may make (ulimit
 * -f) raises SIGXFSZ; both end a program that does not know of them. A quiet
 * write fails with EPIPE or EFBIG alone, and how the program handles these
 * signals is not touched. */
#ifndef DLK_CORE_QUIET_H
#define DLK_CORE_QUIET_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* As write. */
ssize_t dlk_quiet_write(int fd, const void *data, size_t n);

/* As pwrite, for files. Quiet if the process had a limit of file sizes when
 * dlk_quiet_look was called last: without one no signal can come, and the mask
 * costs twice as many system calls as the write. A program that sets itself a
 * limit is looked at again when it opens a store. */
void dlk_quiet_look(void);
ssize_t dlk_quiet_pwrite(int fd, const void *data, size_t n, off_t at);

/* For writes that others do: between the two calls this thread gets neither of
 * these signals. */
struct dlk_quiet {
  sigset_t old;
  sigset_t others; /* pending before: somebody else waits for them */
};

void dlk_quiet_begin(struct dlk_quiet *q);
/* raised: a write may have failed so; its signal is taken back. */
void dlk_quiet_end(const struct dlk_quiet *q, bool raised);

#endif
