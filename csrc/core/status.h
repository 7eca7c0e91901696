/* Result codes and the error text that goes with them.
 *
 * Every failure that can reach a user is one of these codes; the text starts
 * with the code's name, names the key or the server, and says what to do.
 * Secrets never go into a text. Only dlk_error_keep allocates. */
#ifndef DLK_CORE_STATUS_H
#define DLK_CORE_STATUS_H

#include <stddef.h>

enum dlk_code {
  DLK_OK = 0,
  DLK_BUSY,        /* a try: somebody else holds it now */
  DLK_TIMEOUT,     /* waited and did not get it; nothing left behind */
  DLK_CANCELLED,   /* the wait was cancelled */
  DLK_LOST,        /* the lease is not ours any more */
  DLK_UNAVAILABLE, /* the store cannot be reached or cannot serve */
  DLK_DENIED,      /* authentication, ACL or TLS refused us */
  DLK_INVALID,     /* a URL, key or value that cannot be used */
  DLK_CLOSED,      /* the store was closed */
  DLK_FORKED,      /* made and used before a fork, used after it */
  DLK_UNSUPPORTED, /* this store or host cannot do that */
  DLK_CODES
};

struct dlk_error {
  enum dlk_code code;
  char text[384];
};

/* The code as users see it: "busy", "timeout", ... */
const char *dlk_code_name(enum dlk_code code);

/* Fills err (which may be NULL) with "<code>: <formatted text>" and returns
 * code. A text that is too long is cut, never split inside a UTF-8 sequence
 * of ours because all our texts are ASCII. */
enum dlk_code dlk_error_set(struct dlk_error *err, enum dlk_code code,
                            const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A copy of err on the heap: most of what could fail does not, and carries no
 * text around. NULL stays NULL. Without memory a constant with the same code.
 */
const struct dlk_error *dlk_error_keep(const struct dlk_error *err);
/* Frees such a copy and forgets it. */
void dlk_error_drop(const struct dlk_error **kept);

/* Space that dlk_quote needs at most. */
#define DLK_QUOTED_MAX 96

/* Writes what a text is about: the key in quotes, bytes outside printable
 * ASCII as \xNN, cut with "..." when longer than fits; without one (no key is
 * empty) the store. Returns out. */
const char *dlk_quote(char out[DLK_QUOTED_MAX], const char *s, size_t len);

/* What an errno means, in out; for a lack of descriptors with the limit. */
#define DLK_REASON_MAX 128
const char *dlk_reason(char out[DLK_REASON_MAX], int error);

/* The code that an errno of a file or a socket means. What is not refused
 * (denied), no setting that cannot work (invalid) and nothing that the system
 * lacks (unsupported) may pass by itself: unavailable. */
enum dlk_code dlk_errno_code(int error);

/* A shared request under another limit than those who are there: `invalid`,
 * the same on every store. */
enum dlk_code dlk_error_other_limit(struct dlk_error *err, const char *key,
                                    size_t len);

#endif
