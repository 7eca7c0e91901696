/* An OpenSSL context with the certificates of the settings. */
#ifndef DLK_TLS_CONTEXT_H
#define DLK_TLS_CONTEXT_H

#include <openssl/ssl.h>

#include "tls/tls.h"

/* Reads the files, inside the gate. NULL and *fault. */
SSL_CTX *dlk_tls_context_new(const struct dlk_tls_settings *settings,
                             struct dlk_tls_fault *fault);

#endif
