#include "core/password.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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

/* 0: it can be read. A pipe without a writer reads as ended, but poll waits. */
static int await(int fd, int64_t until) {
  struct pollfd p = {.fd = fd, .events = POLLIN};
  int rc = -1;
  do {
    rc = poll(&p, 1, dlk_poll_ms(until));
  } while (rc < 0 && errno == EINTR);
  return rc > 0 ? 0 : rc == 0 ? ETIMEDOUT : errno;
}

static int read_line(int fd, int64_t until, char *to, size_t *len) {
  while (*len < DLK_PASSWORD_READ) {
    int problem = await(fd, until);
    if (problem)
      return problem;
    ssize_t n = read(fd, to + *len, DLK_PASSWORD_READ - *len);
    if (n < 0 && errno != EINTR && errno != EAGAIN)
      return errno;
    if (n == 0 || (n > 0 && memchr(to + *len, '\n', (size_t)n))) {
      *len += (size_t)n;
      return 0;
    }
    *len += n > 0 ? (size_t)n : 0;
  }
  return 0;
}

int dlk_password_read(const char *path, int64_t patience,
                      char to[DLK_PASSWORD_READ], size_t *len) {
  int64_t until = dlk_time_add(dlk_clock_now(), patience);
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0)
    return errno;
  *len = 0;
  int problem = read_line(fd, until, to, len);
  close(fd);
  return problem;
}

void dlk_password_free(char *text) {
  if (text)
    explicit_bzero(text, strlen(text));
  free(text);
}
