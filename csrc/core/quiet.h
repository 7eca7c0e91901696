/* Writes that raise no signal. A pipe without reader (SIGPIPE) and a file
 * beyond its limit (ulimit -f, SIGXFSZ) only fail: EPIPE, EFBIG. The program's
 * handlers stay as they are. */
#ifndef DLK_CORE_QUIET_H
#define DLK_CORE_QUIET_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

ssize_t dlk_quiet_write(int fd, const void *data, size_t n);

/* Blocks signals only if dlk_quiet_look found a limit of file sizes: the mask
 * costs twice the system calls of the write. Each open of a store looks. */
void dlk_quiet_look(void);
ssize_t dlk_quiet_pwrite(int fd, const void *data, size_t n, off_t at);

/* For writes of a library: the thread gets neither signal in between. */
struct dlk_quiet {
  sigset_t old;
  sigset_t others; /* pending before: the program's */
};

void dlk_quiet_begin(struct dlk_quiet *q);
/* raised: a write may have raised one, which is taken back. */
void dlk_quiet_end(const struct dlk_quiet *q, bool raised);

#endif
