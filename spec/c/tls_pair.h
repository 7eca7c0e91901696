/* A channel of csrc/tls and OpenSSL's server, both in this program's memory:
 * what one of them says is carried to the other by hand. */
#ifndef SPEC_C_TLS_PAIR_H
#define SPEC_C_TLS_PAIR_H

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>

#include "check.h"
#include "tls/tls.h"

const struct dlk_tls_library *dlock_tls_library(const char **why);

static const struct dlk_tls_library *lib;
static const char *certificates;

/* ---- both ends ---- */

struct pair {
  struct dlk_tls_client *client;
  struct dlk_tls_channel *c;
  SSL *server;
  BIO *to_server, *from_server;
};

static inline const char *path(const char *name) {
  static char at[8][512];
  static unsigned next;
  char *p = at[next++ % 8];
  snprintf(p, sizeof at[0], "%s/%s", certificates, name);
  return p;
}

/* Of a server that shows that certificate. */
static inline SSL_CTX *context_of(int version, const char *name) {
  char file[64];
  SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
  CHECK(ctx && SSL_CTX_set_min_proto_version(ctx, version) == 1);
  CHECK(SSL_CTX_set_max_proto_version(ctx, version) == 1);
  snprintf(file, sizeof file, "%s.crt", name);
  CHECK(SSL_CTX_use_certificate_file(ctx, path(file), SSL_FILETYPE_PEM) == 1);
  snprintf(file, sizeof file, "%s.key", name);
  CHECK(SSL_CTX_use_PrivateKey_file(ctx, path(file), SSL_FILETYPE_PEM) == 1);
  CHECK(SSL_CTX_set_session_id_context(ctx, (const void *)"t", 1) == 1);
  return ctx;
}

static inline SSL_CTX *server_context(int version) {
  return context_of(version, "server");
}

static inline struct dlk_tls_settings trusting(void) {
  static char ca[512];
  snprintf(ca, sizeof ca, "%s", path("ca.crt"));
  return (struct dlk_tls_settings){.cafile = ca, .verify = true};
}

static inline void open_pair(struct pair *p, struct dlk_tls_client *client,
                             SSL_CTX *ctx) {
  struct dlk_tls_fault fault = {DLK_OK, ""};
  p->client = client;
  p->c = lib->open(client, "localhost", 6379, &fault);
  if (!p->c)
    puts(fault.text);
  CHECK(p->c);
  p->server = SSL_new(ctx);
  p->to_server = BIO_new(BIO_s_mem());
  p->from_server = BIO_new(BIO_s_mem());
  CHECK(p->server && p->to_server && p->from_server);
  SSL_set_bio(p->server, p->to_server, p->from_server);
  SSL_set_accept_state(p->server);
}

static inline void close_pair(struct pair *p) {
  lib->channel_free(p->c);
  SSL_free(p->server);
}

/* And with it its client and the server's context. */
static inline void end_pair(struct pair *p, SSL_CTX *ctx) {
  close_pair(p);
  lib->client_free(p->client);
  SSL_CTX_free(ctx);
}

/* What the client has to say goes to the server. */
static inline size_t carry_up(struct pair *p) {
  size_t n;
  const char *out = lib->out(p->c, &n);
  if (out) {
    CHECK(BIO_write(p->to_server, out, (int)n) == (int)n);
    lib->sent(p->c, n);
  }
  return n;
}

/* At most `most` bytes of what the server has to say. */
static inline size_t carry_down(struct pair *p, size_t most) {
  char bytes[65536];
  int n = BIO_read(p->from_server, bytes,
                   (int)(most < sizeof bytes ? most : sizeof bytes));
  if (n <= 0)
    return 0;
  lib->feed(p->c, bytes, (size_t)n);
  lib->keep(p->c); /* `bytes` goes */
  return (size_t)n;
}

/* The handshake, `piece` bytes at a time. */
static inline enum dlk_tls_step greet(struct pair *p, size_t piece) {
  enum dlk_tls_step step;
  for (int i = 0; i < 100000; i++) {
    step = lib->handshake(p->c);
    (void)carry_up(p);
    if (step != DLK_TLS_WANTS_INPUT)
      break;
    (void)SSL_do_handshake(p->server);
    if (carry_down(p, piece) == 0)
      break;
  }
  (void)SSL_do_handshake(p->server);
  ERR_clear_error();
  return step;
}

/* What the client reads of what came, and the last step. */
static inline size_t read_all(struct pair *p, char *out, size_t room,
                              enum dlk_tls_step *last) {
  size_t got = 0, did;
  *last = DLK_TLS_DONE;
  while (got < room && *last == DLK_TLS_DONE) {
    *last = lib->read(p->c, out + got, room - got, &did);
    got += *last == DLK_TLS_DONE ? did : 0;
  }
  return got;
}

static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

static inline void told(struct pair *p, const char *text, size_t piece) {
  char got[64] = "";
  size_t len = 0;
  enum dlk_tls_step step = DLK_TLS_WANTS_INPUT;
  CHECK(SSL_write(p->server, text, (int)strlen(text)) == (int)strlen(text));
  do {
    len += read_all(p, got + len, sizeof got - len, &step);
    CHECK(step == DLK_TLS_WANTS_INPUT);
  } while (carry_down(p, piece) > 0);
  len += read_all(p, got + len, sizeof got - len, &step);
  CHECK(len == strlen(text) && memcmp(got, text, len) == 0);
}

static inline void asked(struct pair *p, const char *text) {
  char got[64];
  size_t did;
  CHECK(lib->write(p->c, text, strlen(text), &did) == DLK_TLS_DONE);
  CHECK(did == strlen(text) && carry_up(p) > 0);
  int n = SSL_read(p->server, got, sizeof got);
  CHECK(n == (int)strlen(text) && memcmp(got, text, (size_t)n) == 0);
}

/* main's whole work; argv[1]: where the certificates are. */
static inline int pair_tests(int argc, char **argv) {
  const char *why = NULL;
  certificates = argc > 1 ? argv[1] : ".";
  lib = dlock_tls_library(&why);
  if (!lib) {
    puts(why);
    return 1;
  }
  return check_all();
}

#endif
