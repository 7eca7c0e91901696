/* What the server's error replies mean for us: one table. */
#ifndef DLK_STORE_REDIS_WIRE_ERRORS_H
#define DLK_STORE_REDIS_WIRE_ERRORS_H

#include <stdbool.h>

#include "core/status.h"

enum dlk_redis_action {
  DLK_REDIS_FAIL,      /* give up with `code` */
  DLK_REDIS_LATER,     /* the same; but that passes by itself, some day */
  DLK_REDIS_RETRY,     /* this server, a little later */
  DLK_REDIS_RECONNECT, /* another server may have taken over: look again */
  DLK_REDIS_SEND_TEXT  /* the script is not there: send it whole */
};

struct dlk_redis_fault {
  const char *word; /* how the reply begins; "" matches anything */
  enum dlk_redis_action action;
  enum dlk_code code;
  const char *advice; /* what the user should do */
};

/* Never NULL. Finds the word at the reply's beginning, and in the middle of
 * the text that servers before 7.0 wrap around a script's error. */
const struct dlk_redis_fault *dlk_redis_fault_find(const char *text);

/* Whether a script may have written when it is refused so: for a right, or for
 * what it found, or we do not know why. The others are refused as a whole: a
 * server that is full, cannot save or misses replicas refuses a script's first
 * write, or none. */
bool dlk_redis_fault_may_be_late(const struct dlk_redis_fault *fault);

/* True when the reply says that the user's rights do not suffice, or that the
 * server was set up without the command: in both cases it never will. */
int dlk_redis_fault_is_denial(const char *text);

/* True when a script was refused a right that the reply does not name. */
bool dlk_redis_fault_is_nameless(const char *text);
/* True when the missing right is one for keys. */
bool dlk_redis_fault_is_of_keys(const char *text);

/* True when no script may be called by its name (EVALSHA), by nobody or by this
 * user. What the script itself was refused, or a key, is no such reply: its
 * text would be refused likewise, or do what was done already a second time. */
bool dlk_redis_fault_bars_names(const char *text);

#define DLK_REDIS_QUOTE_MAX 160

/* So much of a reply as may stand in a message: without control characters, and
 * without the arguments of a command that the server does not know. */
const char *dlk_redis_fault_quote(const char *text,
                                  char out[DLK_REDIS_QUOTE_MAX]);

/* "<code>: <shown> answers <what the server said>; <advice>" */
enum dlk_code dlk_redis_fault_error(struct dlk_error *err, const char *text,
                                    const char *shown);
/* "<code>: <shown> refuses <what>; <advice>": for what has a secret in it,
 * which the server's text may repeat. */
enum dlk_code dlk_redis_fault_unquoted(struct dlk_error *err, const char *text,
                                       const char *shown, const char *what);

/* A reply that no server of ours would give. */
enum dlk_code dlk_redis_odd(struct dlk_error *err, const char *shown);

#endif
