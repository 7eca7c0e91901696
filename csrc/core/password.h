/* The password in a file is its first line, without line feed and a carriage
 * return right before it. NUL is excluded: C and OpenSSL would take it for the
 * end. */
#ifndef DLK_CORE_PASSWORD_H
#define DLK_CORE_PASSWORD_H

#include <stddef.h>
#include <stdint.h>

/* In bytes; as in lua/dlock/options.lua. */
#define DLK_PASSWORD_MAX 4096
/* A password and its line's end. */
#define DLK_PASSWORD_READ (DLK_PASSWORD_MAX + 2)

/* NULL, and the length; else the rest of a sentence about the file. */
const char *dlk_password_line(const char *text, size_t len, size_t *line);

/* Reads any file, pipes and terminals too, up to the end of a line, for at most
 * `patience`. 0, or an errno (ETIMEDOUT: it did not come). */
int dlk_password_read(const char *path, int64_t patience,
                      char to[DLK_PASSWORD_READ], size_t *len);

/* Overwrites the text first; takes NULL. */
void dlk_password_free(char *text);

#endif
