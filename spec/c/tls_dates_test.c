/* Sessions whose certificates go out of date (csrc/tls), on a clock of our own:
 * OpenSSL asks time(), which stands here. usage: tls_dates_test DIR, where the
 * certificates are put. */
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/time.h>
#include <time.h>

#include "tls_pair.h"

#define HOUR 3600L
#define DAY (24 * HOUR)

static time_t ahead; /* of the machine's clock */

time_t time(time_t *to) {
  struct timespec t;
  (void)clock_gettime(CLOCK_REALTIME, &t);
  if (to)
    *to = t.tv_sec + ahead;
  return t.tv_sec + ahead;
}

/* ---- certificates ---- */

struct identity {
  X509 *x;
  EVP_PKEY *key;
};

static void extend(X509 *x, X509 *issuer, int nid, const char *value) {
  X509V3_CTX at;
  X509V3_set_ctx_nodb(&at);
  X509V3_set_ctx(&at, issuer, x, NULL, NULL, 0);
  X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &at, nid, value);
  CHECK(e && X509_add_ext(x, e, -1) == 1);
  X509_EXTENSION_free(e);
}

/* Good for this long from an hour ago; by == NULL: a CA that signs itself. */
static struct identity certificate(const char *name, const struct identity *by,
                                   long last, bool ca) {
  static long serial;
  struct identity me = {X509_new(), EVP_EC_gen("P-256")};
  CHECK(me.x && me.key && X509_set_version(me.x, 2) == 1);
  CHECK(ASN1_INTEGER_set(X509_get_serialNumber(me.x), ++serial) == 1);
  CHECK(X509_gmtime_adj(X509_getm_notBefore(me.x), -HOUR) != NULL);
  CHECK(X509_gmtime_adj(X509_getm_notAfter(me.x), last) != NULL);
  CHECK(X509_NAME_add_entry_by_txt(X509_get_subject_name(me.x), "CN",
                                   MBSTRING_ASC, (const void *)name, -1, -1,
                                   0) == 1);
  X509 *issuer = by ? by->x : me.x;
  CHECK(X509_set_issuer_name(me.x, X509_get_subject_name(issuer)) == 1);
  CHECK(X509_set_pubkey(me.x, me.key) == 1);
  extend(me.x, issuer, NID_basic_constraints, ca ? "CA:TRUE" : "CA:FALSE");
  extend(me.x, issuer, NID_subject_alt_name, "DNS:localhost");
  CHECK(X509_sign(me.x, by ? by->key : me.key, EVP_sha256()) > 0);
  return me;
}

static void write_ca(const struct identity *who) {
  FILE *file = fopen(path("ca.crt"), "w");
  CHECK(file && PEM_write_X509(file, who->x) == 1 && fclose(file) == 0);
}

/* How long each of the three is good: the server's own, that of the CA behind
 * it, which it sends, and that of the CA which the client has. */
struct lives {
  long server, between, root;
};

static SSL_CTX *serving(int version, struct lives lives) {
  struct identity root = certificate("root", NULL, lives.root, true),
                  between = certificate("between", &root, lives.between, true),
                  server = certificate("server", &between, lives.server, false);
  write_ca(&root);
  SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
  CHECK(ctx && SSL_CTX_set_min_proto_version(ctx, version) == 1);
  CHECK(SSL_CTX_set_max_proto_version(ctx, version) == 1);
  CHECK(SSL_CTX_use_certificate(ctx, server.x) == 1);
  CHECK(SSL_CTX_use_PrivateKey(ctx, server.key) == 1);
  CHECK(SSL_CTX_add1_chain_cert(ctx, between.x) == 1);
  CHECK(SSL_CTX_set_session_id_context(ctx, (const void *)"t", 1) == 1);
  const struct identity *all[] = {&root, &between, &server};
  for (int i = 0; i < 3; i++) {
    X509_free(all[i]->x);
    EVP_PKEY_free(all[i]->key);
  }
  return ctx;
}

/* ---- the tests ---- */

/* A connection of a moment, and what it had in common with the one before. */
static bool resumes(struct dlk_tls_client *client, SSL_CTX *ctx) {
  struct pair p;
  open_pair(&p, client, ctx);
  CHECK(greet(&p, SIZE_MAX) == DLK_TLS_DONE);
  told(&p, "+", SIZE_MAX);
  bool resumed = lib->resumed(p.c);
  close_pair(&p);
  return resumed;
}

static void refused(struct dlk_tls_client *client, SSL_CTX *ctx,
                    const char *why) {
  struct dlk_tls_fault fault;
  struct pair p;
  open_pair(&p, client, ctx);
  CHECK(greet(&p, SIZE_MAX) == DLK_TLS_FAILED);
  lib->fault(p.c, &fault);
  CHECK(fault.code == DLK_DENIED && strstr(fault.text, why));
  close_pair(&p);
}

/* By then only one of them is out of date, and the session is not. */
static void over(struct lives lives) {
  for (int v = 0; v < 2; v++) {
    ahead = 0;
    SSL_CTX *ctx = serving(versions[v], lives);
    struct dlk_tls_settings settings = trusting();
    struct dlk_tls_client *client = lib->client_new(&settings);
    CHECK(!resumes(client, ctx));
    ahead = HOUR - 60;
    CHECK(resumes(client, ctx));
    CHECK(resumes(client, ctx)); /* by a session of a session */
    ahead = HOUR + 60;
    refused(client, ctx, "expired");
    refused(client, ctx, "expired");
    lib->client_free(client);
    SSL_CTX_free(ctx);
  }
}

TEST(server_expired) {
  over((struct lives){HOUR, DAY, DAY});
}

TEST(intermediate_expired) {
  over((struct lives){DAY, HOUR, DAY});
}

TEST(root_expired) {
  over((struct lives){DAY, DAY, HOUR});
}

/* The clock was set back. TLS 1.3 offers no session of the future. */
TEST(not_valid_yet) {
  ahead = 0;
  SSL_CTX *ctx = serving(TLS1_2_VERSION, (struct lives){DAY, DAY, DAY});
  struct dlk_tls_settings settings = trusting();
  struct dlk_tls_client *client = lib->client_new(&settings);
  CHECK(!resumes(client, ctx));
  ahead = -2 * HOUR;
  refused(client, ctx, "not valid yet");
  lib->client_free(client);
  SSL_CTX_free(ctx);
}

/* It believes whoever answers, so no date matters. */
TEST(not_verified) {
  for (int v = 0; v < 2; v++) {
    ahead = 0;
    SSL_CTX *ctx = serving(versions[v], (struct lives){HOUR, DAY, DAY});
    struct dlk_tls_settings settings = {.verify = false};
    struct dlk_tls_client *client = lib->client_new(&settings);
    CHECK(!resumes(client, ctx));
    ahead = HOUR + 60;
    CHECK(resumes(client, ctx));
    lib->client_free(client);
    SSL_CTX_free(ctx);
  }
}

int main(int argc, char **argv) {
  return pair_tests(argc, argv);
}
