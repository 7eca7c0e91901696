/* What the settings say, as OpenSSL wants it: an SSL_CTX. */
#ifndef DLK_TLS_CONTEXT_H
#define DLK_TLS_CONTEXT_H

#include <openssl/ssl.h>

#include "tls/tls.h"

/* NULL and *fault. Reads the files. Inside the gate. */
SSL_CTX *dlk_tls_context_new(const struct dlk_tls_settings *settings,
                             struct dlk_tls_fault *fault);

#endif
