/* Reads a password from a file. */
#include "core/password.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"

#define DIGITS(n) #n
#define TEXT(n) DIGITS(n)

const char *dlk_password_line(const char *text, size_t len, size_t *line) {
  const char *end = len > 0 ? memchr(text, '\n', len) : NULL;
  size_t n = end ? (size_t)(end - text) : len;
  if (end && n > 0 && text[n - 1] == '\r')
    n--;
  *line = n;
  if (n == 0)
    return "its first line is empty";
  if (n > DLK_PASSWORD_MAX)
    return "its first line has more than " TEXT(DLK_PASSWORD_MAX) " bytes";
  return memchr(text, '\0', n) ? "its first line holds a NUL byte" : NULL;
}

int dlk_password_read(const char *path, int64_t patience,
                      char to[DLK_PASSWORD_READ], size_t *len) {
  int64_t until = dlk_time_add(dlk_clock_now(), patience);
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0)
    return errno;
  bool ended = false;
  int problem = 0;
  for (*len = 0; !ended && problem == 0 && *len < DLK_PASSWORD_READ;) {
    /* A pipe without a writer reads as ended, but poll waits. */
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int ready = poll(&p, 1, dlk_poll_ms(until));
    ssize_t n = ready;
    if (ready > 0)
      n = read(fd, to + *len, DLK_PASSWORD_READ - *len);
    if (ready == 0) {
      problem = ETIMEDOUT;
    } else if (n >= 0) {
      ended = n == 0 || memchr(to + *len, '\n', (size_t)n);
      *len += (size_t)n;
    } else if (errno != EINTR && !(ready > 0 && errno == EAGAIN)) {
      problem = errno;
    }
  }
  close(fd);
  return problem;
}

void dlk_password_free(char *text) {
  if (text)
    explicit_bzero(text, strlen(text));
  free(text);
}
