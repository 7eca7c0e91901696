/* File names for keys. */
#ifndef DLK_STORE_FILE_FORMAT_NAME_H
#define DLK_STORE_FILE_FORMAT_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest name, with its NUL; below NAME_MAX everywhere. */
#define DLK_FILE_NAME 256

/* The file name of a key: letters, digits, '_', '-', '.' and ':' stand for
 * themselves (a leading '.' does not), every other byte is %XX. A name that
 * gets too long is "~h" and the key's SHA-256 instead. Names of other files
 * in the directory begin with '~' too, which no short name does. */
void dlk_file_name(char out[DLK_FILE_NAME], const char *key, size_t len);

/* Whether the name is that of the key's file. */
bool dlk_file_name_is(const char *name, const char *key, size_t len);

/* SHA-256 (FIPS 180-4). */
void dlk_file_sha256(uint8_t out[32], const void *data, size_t len);

#endif
