/* One store's side of TLS: its settings, the SSL_CTX made of them, and the
 * sessions that a later connection may resume. */
#ifndef DLK_TLS_CLIENT_H
#define DLK_TLS_CLIENT_H

#include <openssl/ssl.h>

#include "tls/file.h"

/* One for each server is kept; of more servers the one that was used longest
 * ago is forgotten. */
#define DLK_TLS_SESSIONS 16
/* "[host]:port" and what is in between; no host is longer than 253 bytes. */
#define DLK_TLS_PEER 272
/* That the settings can name. */
#define DLK_TLS_FILES 4

struct dlk_tls_kept {
  char peer[DLK_TLS_PEER];
  SSL_SESSION *session;
  uint64_t used;
};

struct dlk_tls_client {
  const struct dlk_tls_settings *settings;
  SSL_CTX *ctx; /* NULL until the first channel is opened */
  struct dlk_tls_stamp stamps[DLK_TLS_FILES];
  uint64_t clock;
  struct dlk_tls_kept kept[DLK_TLS_SESSIONS];
};

struct dlk_tls_client *
dlk_tls_client_new(const struct dlk_tls_settings *settings);
void dlk_tls_client_free(struct dlk_tls_client *client);
/* The context of the files as they are now; as they were, if they cannot be
 * used now. NULL and *fault: there never was one. */
SSL_CTX *dlk_tls_client_context(struct dlk_tls_client *client,
                                struct dlk_tls_fault *fault);
/* Takes the session; NULL: there is none. */
SSL_SESSION *dlk_tls_client_take(struct dlk_tls_client *client,
                                 const char *peer);
/* Owns it from now on. */
void dlk_tls_client_keep(struct dlk_tls_client *client, const char *peer,
                         SSL_SESSION *session);

#endif
