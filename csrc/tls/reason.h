/* Why a connection failed, in words that say what to do. */
#ifndef DLK_TLS_REASON_H
#define DLK_TLS_REASON_H

#include <openssl/ssl.h>

#include "tls/tls.h"

/* What was seen of a handshake, beside OpenSSL's own error. */
struct dlk_tls_seen {
  const char *name; /* whom the certificate must name */
  bool asked;       /* for a certificate of ours */
  bool shown;       /* we have one */
  int verify_error; /* X509_V_…; 0: none */
  char named[96];   /* what the server's certificate says: its names, or the
                       date that is not right */
};

/* In the callback of SSL_CTX_set_verify. */
void dlk_tls_reason_verify(struct dlk_tls_seen *seen, X509_STORE_CTX *at);
/* From OpenSSL's error queue. */
void dlk_tls_reason(const struct dlk_tls_seen *seen, bool greeted,
                    struct dlk_tls_fault *fault);
/* The peer hung up without a word. */
void dlk_tls_reason_gone(const struct dlk_tls_seen *seen, bool greeted,
                         struct dlk_tls_fault *fault);

#endif
