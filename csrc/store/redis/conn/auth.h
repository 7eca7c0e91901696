/* The AUTH command, with a password that may change. */
#ifndef DLK_STORE_REDIS_CONN_AUTH_H
#define DLK_STORE_REDIS_CONN_AUTH_H

#include <stdbool.h>

#include "core/buf.h"
#include "core/secret.h"

struct dlk_redis_auth {
  const char *username, *password; /* or NULL; password: a constant one */
  struct dlk_secret *secret;       /* or NULL: a changing one */
  unsigned turn;                   /* the secret's turn when it was sent */
};

/* Appends AUTH with the current password. False: neither user nor password. */
bool dlk_redis_auth_put(struct dlk_redis_auth *a, struct dlk_buf *out);

#endif
