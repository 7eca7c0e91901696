/* Certificates and keys, in PEM. */
#ifndef DLK_TLS_FILE_H
#define DLK_TLS_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/buf.h"
#include "tls/tls.h"

/* Differs when another file stands under the name. */
struct dlk_tls_stamp {
  dev_t dev;
  ino_t ino;
  off_t size;
  int64_t changed;
};

/* All 0 for NULL or no file. */
struct dlk_tls_stamp dlk_tls_file_stamp(const char *path);
/* The same for directories with ':' between them. */
struct dlk_tls_stamp dlk_tls_file_stamp_all(const char *list);
bool dlk_tls_file_same(const struct dlk_tls_stamp *a,
                       const struct dlk_tls_stamp *b);
/* Reads all of it, with a NUL behind. option: its name for users. The caller
 * wipes secrets. */
bool dlk_tls_file_read(const char *option, const char *path,
                       struct dlk_buf *out, struct dlk_tls_fault *fault);
/* False and *fault: one of the directories is missing. */
bool dlk_tls_file_directories(const char *option, const char *list,
                              struct dlk_tls_fault *fault);
void dlk_tls_fault_set(struct dlk_tls_fault *fault, enum dlk_code code,
                       const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
