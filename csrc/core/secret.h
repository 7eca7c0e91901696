/* A password that may change between connections: a file was replaced, or the
 * program gave a new one. Any thread may read or set it.
 *
 * Each text has a number (`turn`). A refusal names it, and the program is asked
 * once, if that text is still the latest. So two refused connections cost one
 * question, and a late refusal drops no new password.
 *
 * The question is a state (QUIET, WANTED, ASKED, QUIET), so that no full queue
 * loses it. An answer may never come (an error, a dropped coroutine): a refusal
 * a minute later asks again. */
#ifndef DLK_CORE_SECRET_H
#define DLK_CORE_SECRET_H

#include <stdbool.h>

#include "core/buf.h"

struct dlk_secret;

/* text: the first, or NULL. path: NULL, or a file (password.h) that each read
 * looks into. asks: the program can be asked. NULL: out of memory. */
struct dlk_secret *dlk_secret_new(const char *text, const char *path,
                                  bool asks);
/* Takes NULL. */
void dlk_secret_free(struct dlk_secret *s);
/* Appends the text with its NUL; the caller wipes it. False: there is none, or
 * out->failed. */
bool dlk_secret_read(struct dlk_secret *s, struct dlk_buf *out, unsigned *turn);
/* That text was refused. True: the program is to be asked. */
bool dlk_secret_refused(struct dlk_secret *s, unsigned turn);
/* Takes no mutex. */
bool dlk_secret_is_wanted(const struct dlk_secret *s);
/* True, once: the caller asks now. */
bool dlk_secret_ask(struct dlk_secret *s);
/* NULL: the program has no other. False: out of memory. */
bool dlk_secret_set(struct dlk_secret *s, const char *text);

#endif
