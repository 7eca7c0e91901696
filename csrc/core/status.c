/* Names of codes, and texts of errors. */
#include "core/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define CODES(X)                                                               \
  X(DLK_OK, "ok")                                                              \
  X(DLK_BUSY, "busy")                                                          \
  X(DLK_TIMEOUT, "timeout")                                                    \
  X(DLK_CANCELLED, "cancelled")                                                \
  X(DLK_LOST, "lost")                                                          \
  X(DLK_UNAVAILABLE, "unavailable")                                            \
  X(DLK_DENIED, "denied")                                                      \
  X(DLK_INVALID, "invalid")                                                    \
  X(DLK_CLOSED, "closed")                                                      \
  X(DLK_FORKED, "forked")                                                      \
  X(DLK_UNSUPPORTED, "unsupported")

#define NAME(code, name) [code] = (name),
static const char *const names[DLK_CODES] = {CODES(NAME)};

/* Kept when there is no memory for a copy. */
#define BARE(code, name) [code] = {code, name ": (out of memory for more)"},
static const struct dlk_error bare[DLK_CODES] = {CODES(BARE)};

const char *dlk_code_name(enum dlk_code code) {
  return (unsigned)code < DLK_CODES ? names[code] : "unavailable";
}

enum dlk_code dlk_error_set(struct dlk_error *err, enum dlk_code code,
                            const char *fmt, ...) {
  if (!err)
    return code;
  err->code = code;
  int n = snprintf(err->text, sizeof err->text, "%s: ", dlk_code_name(code));
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(err->text + n, sizeof err->text - (size_t)n, fmt, ap);
  va_end(ap);
  return code;
}

const struct dlk_error *dlk_error_keep(const struct dlk_error *err) {
  if (!err)
    return NULL;
  struct dlk_error *copy = malloc(sizeof *copy);
  if (!copy)
    return &bare[(unsigned)err->code < DLK_CODES ? err->code : DLK_UNAVAILABLE];
  *copy = *err;
  return copy;
}

void dlk_error_drop(const struct dlk_error **kept) {
  const struct dlk_error *err = *kept;
  *kept = NULL;
  if (err && err != &bare[err->code])
    free((void *)(uintptr_t)err);
}

const char *dlk_quote(char out[DLK_QUOTED_MAX], const char *s, size_t len) {
  static const char hex[] = "0123456789abcdef";
  char *p = out;
  if (len == 0)
    return memcpy(out, "the store", 10);
  char *end = out + DLK_QUOTED_MAX - 9; /* \xNN...'\0 */
  *p++ = '\'';
  size_t i = 0;
  for (; i < len && p < end; i++) {
    unsigned char c = (unsigned char)s[i];
    if (c >= 0x20 && c < 0x7f && c != '\'' && c != '\\') {
      *p++ = (char)c;
      continue;
    }
    *p++ = '\\';
    *p++ = 'x';
    *p++ = hex[c >> 4];
    *p++ = hex[c & 15];
  }
  if (i < len) {
    memcpy(p, "...", 3);
    p += 3;
  }
  *p++ = '\'';
  *p = '\0';
  return out;
}

void dlk_error_name_key(struct dlk_error *err, const char *key, size_t len) {
  char quoted[DLK_QUOTED_MAX];
  struct dlk_error old = *err;
  const char *rest = strstr(old.text, ": ");
  dlk_quote(quoted, key, len);
  if (len > 0 && rest && !strstr(old.text, quoted))
    dlk_error_set(err, old.code, "%s: %s", quoted, rest + 2);
}

const char *dlk_reason(char out[DLK_REASON_MAX], int error) {
  struct rlimit limit;
  if (error == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
    snprintf(out, DLK_REASON_MAX,
             "too many open files; this process may open %llu, raise that "
             "limit (ulimit -n)",
             (unsigned long long)limit.rlim_cur);
  else if (error == EFBIG && getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
           limit.rlim_cur != RLIM_INFINITY)
    snprintf(out, DLK_REASON_MAX,
             "file too large; this process may write up to byte %llu of a "
             "file, raise that limit (ulimit -f)",
             (unsigned long long)limit.rlim_cur);
  else if (error == ENFILE)
    snprintf(out, DLK_REASON_MAX,
             "too many open files on this machine; raise its limit (sysctl "
             "fs.file-max)");
  else
    snprintf(out, DLK_REASON_MAX, "%s", strerror(error));
  return out;
}

enum dlk_code dlk_errno_code(int error) {
  static const struct {
    int error;
    enum dlk_code code;
  } table[] = {
      {EACCES, DLK_DENIED},          {EPERM, DLK_DENIED},
      {EROFS, DLK_INVALID},          {ENOENT, DLK_INVALID},
      {ENOTDIR, DLK_INVALID},        {EISDIR, DLK_INVALID},
      {ENAMETOOLONG, DLK_INVALID},   {ELOOP, DLK_INVALID},
      {EPROTOTYPE, DLK_INVALID},     {ENOSYS, DLK_UNSUPPORTED},
      {EOPNOTSUPP, DLK_UNSUPPORTED},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    if (table[i].error == error)
      return table[i].code;
  return DLK_UNAVAILABLE;
}

enum dlk_code dlk_error_other_limit(struct dlk_error *err, const char *key,
                                    size_t len) {
  char quoted[DLK_QUOTED_MAX];
  return dlk_error_set(err, DLK_INVALID,
                       "%s: others use this key with another limit; use one "
                       "limit per key",
                       dlk_quote(quoted, key, len));
}
