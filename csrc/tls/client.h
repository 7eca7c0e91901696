/* A store's TLS: its settings, their SSL_CTX, and sessions to resume. */
#ifndef DLK_TLS_CLIENT_H
#define DLK_TLS_CLIENT_H

#include <openssl/ssl.h>

#include "tls/file.h"

/* One a server; the one used longest ago is replaced. */
#define DLK_TLS_SESSIONS 16
/* "[host]:port"; a host has at most 253 bytes. */
#define DLK_TLS_PEER 272
#define DLK_TLS_FILES 5

/* chain: it verified the session's server, up to the CA; NULL without
 * verification. */
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
/* The context of the files as they are, or of the last usable ones. NULL and
 * *fault: there never were any. */
SSL_CTX *dlk_tls_client_context(struct dlk_tls_client *client,
                                struct dlk_tls_fault *fault);
/* The caller owns it. session NULL: none may be resumed. */
struct dlk_tls_ticket dlk_tls_client_take(struct dlk_tls_client *client,
                                          const char *peer);
/* Owns the session, copies the chain. */
void dlk_tls_client_keep(struct dlk_tls_client *client, const char *peer,
                         SSL_SESSION *session, STACK_OF(X509) * chain);

#endif
