/* Why a connection failed, and what to do. */
#ifndef DLK_TLS_REASON_H
#define DLK_TLS_REASON_H

#include <openssl/ssl.h>

#include "tls/tls.h"

/* What a handshake showed beside OpenSSL's error. */
struct dlk_tls_seen {
  const char *name; /* expected in the certificate */
  bool asked;       /* for our certificate */
  bool shown;
  int verify_error; /* X509_V_…; 0: none */
  char named[96];   /* the certificate's names, or its wrong date */
};

/* In the callback of SSL_CTX_set_verify. */
void dlk_tls_reason_verify(struct dlk_tls_seen *seen, X509_STORE_CTX *at);
/* From OpenSSL's error queue. */
void dlk_tls_reason(const struct dlk_tls_seen *seen, bool greeted,
                    struct dlk_tls_fault *fault);
/* The peer closed without an alert. */
void dlk_tls_reason_gone(const struct dlk_tls_seen *seen, bool greeted,
                         struct dlk_tls_fault *fault);

#endif
