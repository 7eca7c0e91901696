/* Result codes and their texts. A failure's text starts with the code, names
 * the key or the server, says what to do, and holds no secret. */
#ifndef DLK_CORE_STATUS_H
#define DLK_CORE_STATUS_H

#include <stddef.h>

enum dlk_code {
  DLK_OK = 0,
  DLK_BUSY,    /* a try: held by another now */
  DLK_TIMEOUT, /* waited in vain; nothing is left behind */
  DLK_CANCELLED,
  DLK_LOST,
  DLK_UNAVAILABLE,
  DLK_DENIED,  /* by authentication, ACL or TLS */
  DLK_INVALID, /* an unusable URL, key or value */
  DLK_CLOSED,
  DLK_FORKED,      /* used before a fork and after it */
  DLK_UNSUPPORTED, /* by this store or host */
  DLK_CODES
};

struct dlk_error {
  enum dlk_code code;
  char text[384];
};

/* As users see it: "busy". */
const char *dlk_code_name(enum dlk_code code);

/* Fills err (unless NULL) with "<code>: <text>", cut to fit; returns code. */
enum dlk_code dlk_error_set(struct dlk_error *err, enum dlk_code code,
                            const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A copy on the heap, because most objects carry no error. NULL stays NULL.
 * Without memory: a constant with the code. */
const struct dlk_error *dlk_error_keep(const struct dlk_error *err);
/* Frees such a copy and sets NULL. */
void dlk_error_drop(const struct dlk_error **kept);

#define DLK_QUOTED_MAX 96

/* Writes the key in quotes, other bytes than printable ASCII as \xNN, cut with
 * "..."; for len 0 "the store". Returns out. */
const char *dlk_quote(char out[DLK_QUOTED_MAX], const char *s, size_t len);
/* Puts the key in front of a text that does not name it. */
void dlk_error_name_key(struct dlk_error *err, const char *key, size_t len);

/* With the limit, for a lack of descriptors. */
#define DLK_REASON_MAX 128
const char *dlk_reason(char out[DLK_REASON_MAX], int error);

/* For an errno of a file or a socket. Only an error that can pass by itself is
 * `unavailable`. */
enum dlk_code dlk_errno_code(int error);

/* `invalid`: holders of the key have another limit. */
enum dlk_code dlk_error_other_limit(struct dlk_error *err, const char *key,
                                    size_t len);

#endif
