/* OpenSSL reads from `in` and writes to `out` through a BIO of dlock's: it sees
 * no descriptor and raises no SIGPIPE.
 *
 * `in` is what the caller fed and OpenSSL has not taken: the caller's memory
 * until `keep`, then `kept`. It is fed only when empty. `out` takes all that
 * OpenSSL writes. No write, and no read (which answers a KeyUpdate), begins
 * while `out` is full (WANTS_ROOM). So OpenSSL never has half a record: a
 * request for new keys would then end the connection ("bad length").
 *
 * A write may say WANTS_INPUT (behind half a ticket); the caller repeats it. */
#include "tls/channel.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "tls/gate.h"
#include "tls/reason.h"

/* A larger buffer is freed when it is empty. */
#define OUT_KEPT 4096u

struct dlk_tls_channel {
  struct dlk_tls_client *client;
  SSL *ssl;
  const char *in;
  size_t in_len;
  char *kept;
  struct dlk_buf out;
  size_t out_at;
  bool greeted;
  bool failed;
  struct dlk_tls_seen seen;
  struct dlk_tls_fault fault;
  char name[DLK_TLS_PEER], peer[DLK_TLS_PEER];
  STACK_OF(X509) * rests_on; /* of a resumed session: see dlk_tls_ticket */
};

static BIO_METHOD *method;

static int bio_read(BIO *b, char *to, size_t n, size_t *did) {
  struct dlk_tls_channel *c = BIO_get_data(b);
  BIO_clear_retry_flags(b);
  if (c->in_len == 0) {
    BIO_set_retry_read(b);
    return 0;
  }
  *did = n < c->in_len ? n : c->in_len;
  memcpy(to, c->in, *did);
  c->in += *did;
  c->in_len -= *did;
  return 1;
}

static int bio_write(BIO *b, const char *p, size_t n, size_t *did) {
  struct dlk_tls_channel *c = BIO_get_data(b);
  BIO_clear_retry_flags(b);
  dlk_buf_shift(&c->out, c->out_at);
  c->out_at = 0;
  dlk_buf_add(&c->out, p, n);
  *did = n;
  return !c->out.failed;
}

static long bio_ctrl(BIO *b, int what, long n, void *p) {
  (void)b;
  (void)n;
  (void)p;
  return what == BIO_CTRL_FLUSH;
}

bool dlk_tls_channel_prepare(void) {
  int index = BIO_get_new_index();
  method = BIO_meth_new(index | BIO_TYPE_SOURCE_SINK, "dlock");
  return method && BIO_meth_set_read_ex(method, bio_read) &&
         BIO_meth_set_write_ex(method, bio_write) &&
         BIO_meth_set_ctrl(method, bio_ctrl);
}

static int on_verify(int good, X509_STORE_CTX *at) {
  SSL *ssl =
      X509_STORE_CTX_get_ex_data(at, SSL_get_ex_data_X509_STORE_CTX_idx());
  struct dlk_tls_channel *c = SSL_get_app_data(ssl);
  if (!good)
    dlk_tls_reason_verify(&c->seen, at);
  return good;
}

/* The server asks for our certificate. */
static int on_asked(SSL *ssl, void *arg) {
  (void)ssl;
  struct dlk_tls_channel *c = arg;
  c->seen.asked = true;
  return 1;
}

/* Owns the session. A resumed one rests on the chain of its first handshake. A
 * session of a replaced context, or without a chain where it counts, is
 * dropped. */
static void keep_session(struct dlk_tls_channel *c, SSL_SESSION *session) {
  STACK_OF(X509) *chain = SSL_session_reused(c->ssl) == 1
                              ? c->rests_on
                              : SSL_get0_verified_chain(c->ssl);
  bool verify = c->client->settings->verify;
  if (SSL_get_SSL_CTX(c->ssl) == c->client->ctx && (chain || !verify))
    dlk_tls_client_keep(c->client, c->peer, session, verify ? chain : NULL);
  else
    SSL_SESSION_free(session);
}

/* 1: it is ours now. */
static int on_session(SSL *ssl, SSL_SESSION *session) {
  struct dlk_tls_channel *c = SSL_get_app_data(ssl);
  if (!SSL_SESSION_is_resumable(session))
    return 0;
  keep_session(c, session);
  return 1;
}

/* The name for the certificate and for SNI: without a zone or a closing dot. */
static void name_server(struct dlk_tls_channel *c, const char *host) {
  const char *given = c->client->settings->server_name;
  const char *name = given ? given : host;
  size_t n = strcspn(name, "%");
  if (n > 1 && name[n - 1] == '.')
    n--;
  snprintf(c->name, sizeof c->name, "%.*s", (int)n, name);
  c->seen.name = c->name;
}

static bool expect_name(struct dlk_tls_channel *c) {
  unsigned char space[16];
  bool address = inet_pton(AF_INET, c->name, space) == 1 ||
                 inet_pton(AF_INET6, c->name, space) == 1;
  if (!address && SSL_set_tlsext_host_name(c->ssl, c->name) != 1)
    return false;
  if (!c->client->settings->verify)
    return true;
  SSL_set_hostflags(c->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  SSL_set_verify(c->ssl, SSL_VERIFY_PEER, on_verify);
  if (address)
    return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(c->ssl), c->name) == 1;
  return SSL_set1_host(c->ssl, c->name) == 1;
}

static bool set_up(struct dlk_tls_channel *c, SSL_CTX *ctx) {
  SSL_CTX_sess_set_new_cb(ctx, on_session);
  c->ssl = SSL_new(ctx);
  BIO *bio = c->ssl ? BIO_new(method) : NULL;
  if (!bio)
    return false;
  BIO_set_data(bio, c);
  BIO_set_init(bio, 1);
  SSL_set_bio(c->ssl, bio, bio);
  SSL_set_app_data(c->ssl, c);
  SSL_set_connect_state(c->ssl);
  c->seen.shown = SSL_get_certificate(c->ssl) != NULL;
  SSL_set_cert_cb(c->ssl, on_asked, c);
  struct dlk_tls_ticket t = dlk_tls_client_take(c->client, c->peer);
  if (t.session)
    (void)SSL_set_session(c->ssl, t.session);
  SSL_SESSION_free(t.session);
  c->rests_on = t.chain;
  return expect_name(c);
}

static void free_channel(struct dlk_tls_channel *c) {
  /* Else its session could not be resumed. */
  if (c->ssl && c->greeted && !c->failed)
    SSL_set_shutdown(c->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
  SSL_free(c->ssl);
  sk_X509_pop_free(c->rests_on, X509_free);
  dlk_buf_free(&c->out);
  free(c->kept);
  free(c);
}

struct dlk_tls_channel *dlk_tls_channel_open(struct dlk_tls_client *client,
                                             const char *host, uint16_t port,
                                             struct dlk_tls_fault *fault) {
  if (!dlk_tls_enter()) {
    dlk_tls_fault_set(fault, DLK_UNAVAILABLE, "the process ends");
    return NULL;
  }
  SSL_CTX *ctx = dlk_tls_client_context(client, fault);
  struct dlk_tls_channel *c = ctx ? calloc(1, sizeof *c) : NULL;
  if (c) {
    c->client = client;
    name_server(c, host);
    snprintf(c->peer, sizeof c->peer, "[%.256s]:%u", host, port);
    if (!set_up(c, ctx)) {
      free_channel(c);
      c = NULL;
    }
  }
  if (ctx && !c)
    dlk_tls_fault_set(fault, DLK_UNAVAILABLE, "out of memory for TLS");
  dlk_tls_leave();
  return c;
}

void dlk_tls_channel_free(struct dlk_tls_channel *c) {
  if (!c || !dlk_tls_enter())
    return;
  free_channel(c);
  dlk_tls_leave();
}

void dlk_tls_channel_feed(struct dlk_tls_channel *c, const char *p, size_t n) {
  c->in = p;
  c->in_len = n;
}

void dlk_tls_channel_keep(struct dlk_tls_channel *c) {
  char *copy = c->in_len > 0 ? malloc(c->in_len) : NULL;
  if (copy) {
    memcpy(copy, c->in, c->in_len);
  } else if (c->in_len > 0) {
    c->failed = true;
    c->in_len = 0;
    dlk_tls_fault_set(&c->fault, DLK_UNAVAILABLE, "out of memory for TLS");
  }
  free(c->kept);
  c->kept = copy;
  c->in = copy;
}

bool dlk_tls_channel_pending(const struct dlk_tls_channel *c) {
  if (c->failed || c->in_len > 0 || !dlk_tls_enter())
    return true;
  bool more = SSL_has_pending(c->ssl) == 1 ||
              (SSL_get_shutdown(c->ssl) & SSL_RECEIVED_SHUTDOWN) != 0;
  dlk_tls_leave();
  return more;
}

const char *dlk_tls_channel_out(const struct dlk_tls_channel *c, size_t *n) {
  *n = c->out.len - c->out_at;
  return *n ? c->out.data + c->out_at : NULL;
}

void dlk_tls_channel_sent(struct dlk_tls_channel *c, size_t n) {
  c->out_at += n;
  if (c->out_at < c->out.len)
    return;
  c->out_at = 0;
  if (c->out.cap > OUT_KEPT)
    dlk_buf_free(&c->out);
  else
    dlk_buf_clear(&c->out);
}

static bool full(const struct dlk_tls_channel *c, size_t most) {
  return c->out.len - c->out_at >= most;
}

/* After a call of OpenSSL's. */
static enum dlk_tls_step judge(struct dlk_tls_channel *c, int result) {
  switch (SSL_get_error(c->ssl, result)) {
  case SSL_ERROR_NONE:
    return DLK_TLS_DONE;
  case SSL_ERROR_WANT_READ:
    return DLK_TLS_WANTS_INPUT;
  case SSL_ERROR_ZERO_RETURN:
    return DLK_TLS_ENDED;
  default:
    if (!c->failed)
      dlk_tls_reason(&c->seen, c->greeted, &c->fault);
    c->failed = true;
    return DLK_TLS_FAILED;
  }
}

enum dlk_tls_step dlk_tls_channel_handshake(struct dlk_tls_channel *c) {
  if (c->failed || !dlk_tls_enter())
    return DLK_TLS_FAILED;
  enum dlk_tls_step step = judge(c, SSL_do_handshake(c->ssl));
  if (step == DLK_TLS_DONE) {
    c->greeted = true;
    /* TLS 1.3 gives each connection a new session; with 1.2 the resumed one
     * stays good. */
    if (SSL_version(c->ssl) < TLS1_3_VERSION && SSL_session_reused(c->ssl) == 1)
      keep_session(c, SSL_get1_session(c->ssl));
  }
  dlk_tls_leave();
  return step;
}

enum dlk_tls_step dlk_tls_channel_read(struct dlk_tls_channel *c, char *p,
                                       size_t n, size_t *did) {
  if (c->failed || !dlk_tls_enter())
    return DLK_TLS_FAILED;
  enum dlk_tls_step step = full(c, DLK_TLS_AHEAD + DLK_TLS_ANSWERS)
                               ? DLK_TLS_WANTS_ROOM
                               : judge(c, SSL_read_ex(c->ssl, p, n, did));
  dlk_tls_leave();
  return step;
}

enum dlk_tls_step dlk_tls_channel_write(struct dlk_tls_channel *c,
                                        const char *p, size_t n, size_t *did) {
  if (c->failed || !dlk_tls_enter())
    return DLK_TLS_FAILED;
  enum dlk_tls_step step = full(c, DLK_TLS_AHEAD)
                               ? DLK_TLS_WANTS_ROOM
                               : judge(c, SSL_write_ex(c->ssl, p, n, did));
  dlk_tls_leave();
  return step;
}

void dlk_tls_channel_finish(struct dlk_tls_channel *c) {
  if (!c->greeted || c->failed || !dlk_tls_enter())
    return;
  (void)SSL_shutdown(c->ssl);
  dlk_tls_leave();
}

void dlk_tls_channel_fault(const struct dlk_tls_channel *c,
                           struct dlk_tls_fault *fault) {
  if (c->failed)
    *fault = c->fault;
  else
    dlk_tls_reason_gone(&c->seen, c->greeted, fault);
}

const char *dlk_tls_channel_protocol(const struct dlk_tls_channel *c) {
  if (!dlk_tls_enter())
    return "the process ends";
  const char *name = SSL_get_version(c->ssl);
  dlk_tls_leave();
  return name;
}

bool dlk_tls_channel_resumed(const struct dlk_tls_channel *c) {
  if (!dlk_tls_enter())
    return false;
  bool was = SSL_session_reused(c->ssl) == 1;
  dlk_tls_leave();
  return was;
}

bool dlk_tls_channel_renew_keys(struct dlk_tls_channel *c) {
  if (!dlk_tls_enter())
    return false;
  bool fine = SSL_key_update(c->ssl, SSL_KEY_UPDATE_REQUESTED) == 1;
  dlk_tls_leave();
  return fine;
}
