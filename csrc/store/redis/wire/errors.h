/* The table of the server's error replies. */
#ifndef DLK_STORE_REDIS_WIRE_ERRORS_H
#define DLK_STORE_REDIS_WIRE_ERRORS_H

#include <stdbool.h>

#include "core/status.h"

enum dlk_redis_action {
  DLK_REDIS_FAIL,      /* give up with `code` */
  DLK_REDIS_LATER,     /* as FAIL, but the cause passes some day */
  DLK_REDIS_RETRY,     /* send it again here, a little later */
  DLK_REDIS_RECONNECT, /* ask for the address: another server may serve */
  DLK_REDIS_SEND_TEXT  /* EVALSHA knows no such script: send its text */
};

struct dlk_redis_fault {
  const char *word; /* the reply begins with it; "" matches any */
  enum dlk_redis_action action;
  enum dlk_code code;
  const char *advice; /* for the user */
};

/* Finds the first word, or the one that servers before 7.0 wrap in a script's
 * error. Never NULL. */
const struct dlk_redis_fault *dlk_redis_fault_find(const char *text);

/* True: the script may have written. LATER, RETRY and RECONNECT come before the
 * first write. */
bool dlk_redis_fault_may_be_late(const struct dlk_redis_fault *fault);

/* True: the user lacks a right, or the server the command; waiting does not
 * help. */
int dlk_redis_fault_is_denial(const char *text);

/* True: a script lacks a right that the reply does not name. */
bool dlk_redis_fault_is_nameless(const char *text);
/* True: the missing right is one for keys. */
bool dlk_redis_fault_is_of_keys(const char *text);

/* True: EVALSHA itself is refused. After a refusal inside the script its text
 * would be refused too, or repeat a write. */
bool dlk_redis_fault_bars_names(const char *text);

#define DLK_REDIS_QUOTE_MAX 160

/* Cuts control characters and the arguments of an unknown command. */
const char *dlk_redis_fault_quote(const char *text,
                                  char out[DLK_REDIS_QUOTE_MAX]);

/* "<shown> answers <text>; <advice>" */
enum dlk_code dlk_redis_fault_error(struct dlk_error *err, const char *text,
                                    const char *shown);
/* "<shown> refuses <what>; <advice>", without the server's text */
enum dlk_code dlk_redis_fault_unquoted(struct dlk_error *err, const char *text,
                                       const char *shown, const char *what);

/* "<shown> gives an answer that Redis would not …" */
enum dlk_code dlk_redis_odd(struct dlk_error *err, const char *shown);

#endif
