/* File names for keys. */
#ifndef DLK_STORE_FILE_FORMAT_NAME_H
#define DLK_STORE_FILE_FORMAT_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* With the NUL; below NAME_MAX. */
#define DLK_FILE_NAME 256

/* Letters, digits, '_', '-', '.' and ':' stand for themselves; a leading '.'
 * and every other byte is %XX. Too long a name is "~h" and the key's SHA-256.
 * The store's other files begin with '~' too. */
void dlk_file_name(char out[DLK_FILE_NAME], const char *key, size_t len);

bool dlk_file_name_is(const char *name, const char *key, size_t len);

void dlk_file_sha256(uint8_t out[32], const void *data, size_t len);

#endif
