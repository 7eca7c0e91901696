/* A password that may be another one with the next connection, because a file
 * was replaced or the program gave a new one.
 *
 * Any thread may read or set it: the store reads when it connects, in whichever
 * thread runs the loop, and Lua's thread sets. Each text that is set has a
 * number (`turn`). Who was refused tells with which one that was, and the
 * program is asked for another only if that is still the latest, and only once:
 * so two connections that are refused together cost one question, and a refusal
 * that comes late does not throw a new password away.
 *
 * That the program is to be asked is a state and not a message: it stays
 * (QUIET, WANTED, ASKED, QUIET) until the thread that asks has taken it, so
 * no queue that is full, and no memory that is short, can lose it. Who has
 * taken it may never answer (an error in the program, a coroutine that is
 * dropped): a refusal a minute later asks again, and an answer that comes after
 * all counts as any other. */
#ifndef DLK_CORE_SECRET_H
#define DLK_CORE_SECRET_H

#include <stdbool.h>

#include "core/buf.h"

struct dlk_secret;

/* text: the first one, or NULL. path: NULL, or the file that it is in
 * (password.h) each time it is read; what was read before counts while there is
 * none. asks: the program can be asked. NULL: out of memory. */
struct dlk_secret *dlk_secret_new(const char *text, const char *path,
                                  bool asks);
/* NULL is fine. */
void dlk_secret_free(struct dlk_secret *s);
/* As of now, NUL-ended, in an empty buffer that the caller wipes; with its
 * number. False: there is none, or (out->failed) no memory. */
bool dlk_secret_read(struct dlk_secret *s, struct dlk_buf *out, unsigned *turn);
/* It was refused; true: the program is to be asked from now on. */
bool dlk_secret_refused(struct dlk_secret *s, unsigned turn);
/* It is to be asked, and nobody has begun to. Takes no mutex. */
bool dlk_secret_is_wanted(const struct dlk_secret *s);
/* True, once: the caller asks it now. */
bool dlk_secret_ask(struct dlk_secret *s);
/* The answer to that; NULL: there is no other. False: out of memory. */
bool dlk_secret_set(struct dlk_secret *s, const char *text);

#endif
