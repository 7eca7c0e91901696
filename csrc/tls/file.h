/* The files that the settings name: certificates and keys, in PEM. */
#ifndef DLK_TLS_FILE_H
#define DLK_TLS_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/buf.h"
#include "tls/tls.h"

/* Which file stands under a name: another one has another stamp. */
struct dlk_tls_stamp {
  dev_t dev;
  ino_t ino;
  off_t size;
  int64_t changed;
};

/* Of a name that is NULL or leads nowhere it is all 0. */
struct dlk_tls_stamp dlk_tls_file_stamp(const char *path);
/* The same of a list of directories, with ':' between them: another one when
 * one of them is. */
struct dlk_tls_stamp dlk_tls_file_stamp_all(const char *list);
bool dlk_tls_file_same(const struct dlk_tls_stamp *a,
                       const struct dlk_tls_stamp *b);
/* All of it, behind it a NUL that is not counted. `option`: what the user calls
 * it. False, and *fault. The caller wipes what is secret. */
bool dlk_tls_file_read(const char *option, const char *path,
                       struct dlk_buf *out, struct dlk_tls_fault *fault);
/* Whether all of a list of directories, with ':' between them, are there; else
 * *fault. */
bool dlk_tls_file_directories(const char *option, const char *list,
                              struct dlk_tls_fault *fault);
void dlk_tls_fault_set(struct dlk_tls_fault *fault, enum dlk_code code,
                       const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
