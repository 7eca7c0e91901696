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
#define DLK_TLS_FILES 5

/* A session, and the certificates by which the server was verified when it
 * began, up to the CA's: NULL where nobody is verified. */
struct dlk_tls_ticket {
  SSL_SESSION *session;
  STACK_OF(X509) * chain;
};

struct dlk_tls_kept {
  char peer[DLK_TLS_PEER];
  struct dlk_tls_ticket ticket;
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
/* The caller's from now on. Without a session: none may be resumed now. */
struct dlk_tls_ticket dlk_tls_client_take(struct dlk_tls_client *client,
                                          const char *peer);
/* Owns the session from now on, and makes a copy of the chain. */
void dlk_tls_client_keep(struct dlk_tls_client *client, const char *peer,
                         SSL_SESSION *session, STACK_OF(X509) * chain);

#endif
