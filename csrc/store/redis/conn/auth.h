/* AUTH, with the password as of now. */
#ifndef DLK_STORE_REDIS_CONN_AUTH_H
#define DLK_STORE_REDIS_CONN_AUTH_H

#include <stdbool.h>

#include "core/buf.h"
#include "core/secret.h"

struct dlk_redis_auth {
  const char *username, *password; /* or NULL; password: if it never changes */
  struct dlk_secret *secret;       /* or NULL: it may change */
  unsigned turn;                   /* the secret's, when it was last said */
};

/* Appends the command; false: there is no user and no password. */
bool dlk_redis_auth_put(struct dlk_redis_auth *a, struct dlk_buf *out);

#endif
