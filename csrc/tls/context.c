/* Each setting is applied on its own: OpenSSL's error would not name it. */
#include "tls/context.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/password.h"
#include "tls/file.h"

static void no_memory(struct dlk_tls_fault *fault) {
  dlk_tls_fault_set(fault, DLK_UNAVAILABLE, "out of memory");
}

static bool unusable(struct dlk_tls_fault *fault, const char *option,
                     const char *path, const char *why) {
  dlk_tls_fault_set(fault, DLK_INVALID, "%s %.120s cannot be used: %s", option,
                    path, why);
  return false;
}

struct password {
  const char *text;
  bool asked;
};

/* Without it OpenSSL asks at the terminal. */
static int give_password(char *out, int room, int writing, void *arg) {
  struct password *p = arg;
  (void)writing;
  p->asked = true;
  size_t n = p->text ? strlen(p->text) : 0;
  if (n == 0 || n > (size_t)room)
    return -1;
  memcpy(out, p->text, n);
  return (int)n;
}

/* NULL: the end; *bad: there is more than certificates. */
static X509 *next_certificate(BIO *from, bool *bad) {
  struct password none = {0};
  X509 *x = PEM_read_bio_X509_AUX(from, NULL, give_password, &none);
  if (x)
    return x;
  unsigned long e = ERR_peek_last_error();
  *bad =
      ERR_GET_LIB(e) != ERR_LIB_PEM || ERR_GET_REASON(e) != PEM_R_NO_START_LINE;
  ERR_clear_error();
  return NULL;
}

/* `take` owns each. Their number, or -1. */
static int each_certificate(const struct dlk_buf *pem,
                            bool (*take)(SSL_CTX *, X509 *, int), SSL_CTX *to) {
  BIO *from = BIO_new_mem_buf(pem->data, (int)pem->len);
  bool bad = !from;
  int count = 0;
  X509 *x = NULL;
  while (!bad && (x = next_certificate(from, &bad)) != NULL)
    bad = !take(to, x, count++);
  BIO_free(from);
  return bad ? -1 : count;
}

static bool trust(SSL_CTX *to, X509 *x, int index) {
  (void)index;
  int fine = X509_STORE_add_cert(SSL_CTX_get_cert_store(to), x);
  X509_free(x);
  return fine == 1;
}

/* The first is ours; the others lead to a CA. */
static bool show(SSL_CTX *to, X509 *x, int index) {
  int fine = index == 0 ? SSL_CTX_use_certificate(to, x)
                        : (int)SSL_CTX_add1_chain_cert(to, x);
  X509_free(x);
  return fine == 1;
}

static bool use_certificates(SSL_CTX *ctx, const char *option, const char *path,
                             bool (*take)(SSL_CTX *, X509 *, int),
                             struct dlk_tls_fault *fault) {
  struct dlk_buf pem = {0};
  if (!dlk_tls_file_read(option, path, &pem, fault))
    return false;
  int count = each_certificate(&pem, take, ctx);
  dlk_buf_wipe(&pem); /* a key may be in it */
  if (count > 0)
    return true;
  return unusable(fault, option, path,
                  count == 0 ? "there is no certificate (PEM) in it"
                             : "a certificate in it is broken");
}

/* OpenSSL's default CAs. OpenSSL would read the file silently: if it could not
 * be opened now, nobody would be trusted for good. It looks into the directory
 * for each certificate. */
static bool use_system(SSL_CTX *ctx, struct dlk_tls_fault *fault) {
  const char *named = secure_getenv(X509_get_default_cert_file_env());
  const char *file = named ? named : X509_get_default_cert_file();
  if ((named || access(file, F_OK) == 0) &&
      !use_certificates(ctx, "the CAs of", file, trust, fault))
    return false;
  if (SSL_CTX_set_default_verify_dir(ctx) == 1)
    return true;
  no_memory(fault);
  return false;
}

static bool use_trust(SSL_CTX *ctx, const struct dlk_tls_settings *s,
                      struct dlk_tls_fault *fault) {
  if (s->cafile &&
      !use_certificates(ctx, "tls.cafile", s->cafile, trust, fault))
    return false;
  if (s->capath && !dlk_tls_file_directories("tls.capath", s->capath, fault))
    return false;
  if (s->capath && SSL_CTX_load_verify_dir(ctx, s->capath) != 1)
    return unusable(fault, "tls.capath", s->capath, "it is no directory");
  if (s->cafile || s->capath)
    return true;
  return use_system(ctx, fault);
}

static bool use_key(SSL_CTX *ctx, const char *path, struct password *p,
                    struct dlk_tls_fault *fault) {
  struct dlk_buf pem = {0};
  if (!dlk_tls_file_read("tls.key", path, &pem, fault))
    return false;
  BIO *from = BIO_new_mem_buf(pem.data, (int)pem.len);
  EVP_PKEY *key =
      from ? PEM_read_bio_PrivateKey(from, NULL, give_password, p) : NULL;
  BIO_free(from);
  dlk_buf_wipe(&pem);
  if (!key)
    return unusable(fault, "tls.key", path,
                    !p->asked ? "there is no private key (PEM) in it"
                    : p->text ? "the key password does not open it"
                              : "it is encrypted; give tls.key_password");
  int fine = SSL_CTX_use_PrivateKey(ctx, key);
  EVP_PKEY_free(key);
  if (fine == 1 && SSL_CTX_check_private_key(ctx) == 1)
    return true;
  return unusable(fault, "tls.key", path, "it is not that of tls.cert");
}

static bool read_password(const char *path, struct dlk_buf *out,
                          struct dlk_tls_fault *fault) {
  static const char option[] = "tls.key_password_file";
  if (!dlk_tls_file_read(option, path, out, fault))
    return false;
  size_t line;
  const char *why = dlk_password_line(out->data, out->len, &line);
  out->data[line] = '\0';
  if (!why)
    return true;
  dlk_buf_wipe(out);
  return unusable(fault, option, path, why);
}

static bool use_identity(SSL_CTX *ctx, const struct dlk_tls_settings *s,
                         struct dlk_tls_fault *fault) {
  if (!s->cert)
    return true;
  if (!use_certificates(ctx, "tls.cert", s->cert, show, fault))
    return false;
  struct dlk_buf secret = {0};
  struct password p = {.text = s->key_password};
  if (!p.text && s->key_password_file) {
    if (!read_password(s->key_password_file, &secret, fault))
      return false;
    p.text = secret.data;
  }
  bool fine = use_key(ctx, s->key ? s->key : s->cert, &p, fault);
  dlk_buf_wipe(&secret);
  return fine;
}

static bool use_ciphers(SSL_CTX *ctx, const struct dlk_tls_settings *s,
                        struct dlk_tls_fault *fault) {
  if (s->ciphers && SSL_CTX_set_cipher_list(ctx, s->ciphers) != 1) {
    dlk_tls_fault_set(fault, DLK_INVALID,
                      "tls.ciphers: OpenSSL knows none of them");
    return false;
  }
  if (s->ciphersuites && SSL_CTX_set_ciphersuites(ctx, s->ciphersuites) != 1) {
    dlk_tls_fault_set(fault, DLK_INVALID,
                      "tls.ciphersuites: OpenSSL does not know one of them");
    return false;
  }
  return true;
}

/* An end without close_notify is a plain end: RESP shows whether something is
 * missing. */
static void harden(SSL_CTX *ctx, const struct dlk_tls_settings *s) {
  unsigned char alpn[16];
  bool newest = s->min_version && strcmp(s->min_version, "1.3") == 0;
  (void)SSL_CTX_set_min_proto_version(ctx,
                                      newest ? TLS1_3_VERSION : TLS1_2_VERSION);
  (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION |
                                     SSL_OP_NO_COMPRESSION |
                                     SSL_OP_IGNORE_UNEXPECTED_EOF);
  (void)SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
  if (s->alpn) {
    alpn[0] = (unsigned char)snprintf((char *)alpn + 1, sizeof alpn - 1, "%s",
                                      s->alpn);
    (void)SSL_CTX_set_alpn_protos(ctx, alpn, alpn[0] + 1u);
  }
  (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT |
                                                SSL_SESS_CACHE_NO_INTERNAL);
}

SSL_CTX *dlk_tls_context_new(const struct dlk_tls_settings *settings,
                             struct dlk_tls_fault *fault) {
  SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
  if (!ctx) {
    no_memory(fault);
    return NULL;
  }
  harden(ctx, settings);
  if ((!settings->verify || use_trust(ctx, settings, fault)) &&
      use_identity(ctx, settings, fault) && use_ciphers(ctx, settings, fault))
    return ctx;
  SSL_CTX_free(ctx);
  return NULL;
}
