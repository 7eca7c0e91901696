/* See password.h. */
#include "core/password.h"

#include <stdlib.h>
#include <string.h>

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

void dlk_password_free(char *text) {
  if (text)
    explicit_bzero(text, strlen(text));
  free(text);
}
