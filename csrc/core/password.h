/* The password in a file: its first line. That ends at a line feed, or with the
 * file. A carriage return right before the line feed belongs to the line's end;
 * any other one is part of the password, as every byte is but NUL, which C and
 * OpenSSL would take for the end. */
#ifndef DLK_CORE_PASSWORD_H
#define DLK_CORE_PASSWORD_H

#include <stddef.h>
#include <stdint.h>

/* The longest one, in bytes; lua/dlock/options.lua has it too. */
#define DLK_PASSWORD_MAX 4096
/* So much of a file says all: the longest one, and its line's end. */
#define DLK_PASSWORD_READ (DLK_PASSWORD_MAX + 2)

/* NULL, and the length of the line; or why no password is in it, as the rest of
 * a sentence about the file. */
const char *dlk_password_line(const char *text, size_t len, size_t *line);

/* The beginning of a file that may be anything: a terminal, a pipe, one that
 * never ends. Reads to the end of its first line, DLK_PASSWORD_READ bytes at
 * most, and waits for what is still to come so long, all in all. 0 and the
 * length; or an errno, ETIMEDOUT if it did not come. */
int dlk_password_read(const char *path, int64_t patience,
                      char to[DLK_PASSWORD_READ], size_t *len);

/* One that malloc gave; nothing of it stays in memory. NULL is fine. */
void dlk_password_free(char *text);

#endif
