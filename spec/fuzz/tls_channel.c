/* A server's bytes on a connection with TLS (csrc/tls, net/secure.c), against
 * OpenSSL's server in memory: the input says what both ends do, and where the
 * bytes between them are cut, changed, lost, said twice or made up.
 *
 * - What is read is what the server wrote, from its beginning on, whatever was
 *   done to the bytes; likewise the other way.
 * - As long as nothing was done to them nothing fails, and in the end all has
 *   arrived, in a bounded number of rounds.
 * - What failed stays so, and says why in printable characters.
 * - Not more than DLK_TLS_AHEAD and a record wait to be sent. */
#define OPENSSL_SUPPRESS_DEPRECATED /* RAND_METHOD */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "input.h"
#include "net/secure.h"
#include "net/tls.h"
#include "tls/tls.h"

#define DEEDS 200
#define MOST 262144 /* bytes that either end says */

const struct dlk_tls_library *dlock_tls_library(const char **why);

int LLVMFuzzerInitialize(int *argc, char ***argv);

static const struct dlk_tls_library *lib;
static struct dlk_tls_library watched; /* the same, but for `out` */
static SSL_CTX *contexts[2];           /* of TLS 1.2 and 1.3 */
static char trusted[64];               /* the server's certificate, as a file */

/* ---- numbers that are the same in each run ---- */

static uint64_t state;

static int bytes(unsigned char *to, int n) {
  for (int i = 0; i < n; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    to[i] = (unsigned char)(state >> 56);
  }
  return 1;
}

static int ready(void) {
  return 1;
}

static const RAND_METHOD same_numbers = {
    .bytes = bytes, .pseudorand = bytes, .status = ready};

static const char *watched_out(const struct dlk_tls_channel *c, size_t *n) {
  const char *p = lib->out(c, n);
  MUST(*n < DLK_TLS_AHEAD + DLK_TLS_ANSWERS + 20000);
  return p;
}

/* ---- the server ---- */

static X509 *certificate(EVP_PKEY *key) {
  X509 *x = X509_new();
  X509V3_CTX at;
  MUST(x && X509_set_version(x, 2) && X509_set_pubkey(x, key));
  ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
  X509_gmtime_adj(X509_getm_notBefore(x), -86400);
  X509_gmtime_adj(X509_getm_notAfter(x), 86400);
  X509_NAME *name = X509_get_subject_name(x);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             (const unsigned char *)"fuzz", -1, -1, 0);
  X509_set_issuer_name(x, name);
  X509V3_set_ctx(&at, x, x, NULL, NULL, 0);
  X509_EXTENSION *names =
      X509V3_EXT_conf_nid(NULL, &at, NID_subject_alt_name, "DNS:localhost");
  MUST(names && X509_add_ext(x, names, -1));
  X509_EXTENSION_free(names);
  MUST(X509_sign(x, key, EVP_sha256()));
  return x;
}

static SSL_CTX *context(X509 *x, EVP_PKEY *key, int version) {
  SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
  MUST(ctx && SSL_CTX_use_certificate(ctx, x) == 1);
  MUST(SSL_CTX_use_PrivateKey(ctx, key) == 1);
  MUST(SSL_CTX_set_min_proto_version(ctx, version) == 1);
  MUST(SSL_CTX_set_max_proto_version(ctx, version) == 1);
  SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
  return ctx;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  const char *why;
  lib = dlock_tls_library(&why);
  MUST(lib != NULL && RAND_set_rand_method(&same_numbers) == 1);
  watched = *lib;
  watched.out = watched_out;
  EVP_PKEY *key = EVP_EC_gen("P-256");
  X509 *x = certificate(key);
  int fd = memfd_create("certificate", MFD_CLOEXEC);
  BIO *file = BIO_new_fd(fd, BIO_NOCLOSE);
  MUST(fd >= 0 && file && PEM_write_bio_X509(file, x));
  BIO_free(file);
  snprintf(trusted, sizeof trusted, "/proc/self/fd/%d", fd);
  contexts[0] = context(x, key, TLS1_2_VERSION);
  contexts[1] = context(x, key, TLS1_3_VERSION);
  X509_free(x);
  EVP_PKEY_free(key);
  return 0;
}

/* ---- both ends, and what is between them ---- */

struct said {
  size_t told, heard; /* bytes of a text that is the same for all */
};

struct world {
  struct dlk_net_secure *x;
  SSL *server;
  BIO *to_server, *from_server;
  int fds[2]; /* the client's end, the other one (-1: closed) */
  char wire[4096];
  size_t on_wire;
  struct said down, up;
  size_t owed;  /* a write was not done, and has to be repeated */
  bool changed; /* the bytes of the server are not what it said */
  bool bye;     /* the server said that it says no more */
  bool greeted, failed, ended;
};

static char text_at(size_t at) {
  return (char)('a' + at % 23);
}

static void check_text(struct said *s, const char *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    MUST(p[i] == text_at(s->heard + i));
  s->heard += n;
  MUST(s->heard <= s->told);
}

/* ---- the server's deeds ---- */

static void server_hears(struct world *w) {
  char raw[4096];
  ssize_t n;
  while ((n = recv(w->fds[1], raw, sizeof raw, MSG_DONTWAIT)) > 0)
    MUST(BIO_write(w->to_server, raw, (int)n) == n);
  if (SSL_do_handshake(w->server) == 1) {
    int got;
    while ((got = SSL_read(w->server, raw, sizeof raw)) > 0)
      check_text(&w->up, raw, (size_t)got);
  }
  ERR_clear_error();
}

static void server_says(struct world *w, size_t n) {
  char text[1024];
  if (!SSL_is_init_finished(w->server) || w->bye || w->down.told + n > MOST)
    return;
  for (size_t i = 0; i < n; i++)
    text[i] = text_at(w->down.told + i);
  if (n > 0 && SSL_write(w->server, text, (int)n) == (int)n)
    w->down.told += n;
  ERR_clear_error();
}

static void server_does(struct world *w, uint8_t what) {
  if (!SSL_is_init_finished(w->server) || w->bye)
    return;
  if (what % 3 == 0)
    w->bye = SSL_shutdown(w->server) >= 0;
  else if (what % 3 == 1)
    (void)SSL_new_session_ticket(w->server);
  else
    (void)SSL_key_update(w->server, SSL_KEY_UPDATE_REQUESTED);
  (void)SSL_do_handshake(w->server);
  ERR_clear_error();
}

/* ---- the wire ---- */

static void pick_up(struct world *w, size_t most) {
  size_t room = sizeof w->wire - w->on_wire;
  int n = BIO_read(w->from_server, w->wire + w->on_wire,
                   (int)(most < room ? most : room));
  w->on_wire += n > 0 ? (size_t)n : 0;
}

static void deliver(struct world *w) {
  ssize_t n = send(w->fds[1], w->wire, w->on_wire, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n > 0) {
    w->on_wire -= (size_t)n;
    memmove(w->wire, w->wire + n, w->on_wire);
  }
}

static void make_up(struct world *w, struct input *in) {
  size_t n;
  const char *p = input_bytes(in, input_byte(in), &n);
  if (n == 0 || n > sizeof w->wire - w->on_wire)
    return;
  memcpy(w->wire + w->on_wire, p, n);
  w->on_wire += n;
  w->changed = true;
}

static void change(struct world *w, uint8_t how, size_t at) {
  if (w->on_wire == 0)
    return;
  at %= w->on_wire;
  if (how % 3 == 0) {
    w->wire[at] = (char)(w->wire[at] ^ (how | 1));
  } else if (how % 3 == 1) { /* the rest is lost */
    w->on_wire = at;
  } else { /* said twice */
    size_t room = sizeof w->wire - w->on_wire;
    size_t n = w->on_wire - at < room ? w->on_wire - at : room;
    memmove(w->wire + w->on_wire, w->wire + at, n);
    w->on_wire += n;
  }
  w->changed = true;
}

/* ---- our deeds ---- */

static void must_have_a_reason(struct world *w) {
  struct dlk_tls_fault fault = {DLK_OK, ""};
  dlk_net_secure_fault(w->x, &fault);
  MUST(fault.code != DLK_OK && fault.text[0]);
  for (const char *c = fault.text; *c; c++)
    MUST(*c >= ' ' && *c < 127);
}

/* Of a call that gave rc. */
static void judge(struct world *w, ssize_t rc, int problem) {
  bool again = rc < 0 && (problem == EAGAIN || problem == EWOULDBLOCK);
  MUST(!w->failed || rc <= 0);
  if (rc > 0 || again)
    return;
  w->ended = w->ended || rc == 0;
  w->failed = w->failed || rc < 0;
  must_have_a_reason(w);
}

static void greet(struct world *w) {
  struct dlk_tls_fault fault = {DLK_OK, ""};
  enum dlk_net_greeting how = dlk_net_secure_greet(w->x, w->fds[0], &fault);
  w->greeted = how == DLK_NET_GREETED;
  if (how == DLK_NET_UNGREETED) {
    w->failed = true;
    MUST(fault.code != DLK_OK && fault.text[0]);
  }
}

static void we_hear(struct world *w, size_t most) {
  char got[2048];
  if (!w->greeted) {
    if (!w->failed)
      greet(w);
    return;
  }
  errno = 0;
  ssize_t n =
      dlk_net_secure_recv(w->x, w->fds[0], got, 1 + most % sizeof got, false);
  if (n > 0)
    check_text(&w->down, got, (size_t)n);
  judge(w, n, errno);
}

static void we_say(struct world *w, size_t n) {
  char text[4096];
  n = 1 + n % sizeof text;
  n = n < w->owed ? w->owed : n;
  if (!w->greeted || w->ended || w->up.told + n > MOST)
    return;
  for (size_t i = 0; i < n; i++)
    text[i] = text_at(w->up.told + i);
  errno = 0;
  ssize_t did = dlk_net_secure_send(w->x, w->fds[0], text, n);
  w->owed = did < 0 ? n : n - (size_t)did;
  if (did > 0)
    w->up.told += (size_t)did;
  if (did < 0 && errno != EAGAIN)
    w->failed = true;
}

/* ---- a run ---- */

static void deed(struct world *w, struct input *in) {
  uint8_t what = input_byte(in), n = input_byte(in);
  switch (what % 11) {
  case 0:
  case 1: /* a little, cut anywhere */
    pick_up(w, n);
    deliver(w);
    break;
  case 2:
    pick_up(w, sizeof w->wire);
    deliver(w);
    break;
  case 3:
    pick_up(w, sizeof w->wire);
    change(w, n, input_byte(in) * 16u);
    break;
  case 4:
    make_up(w, in);
    break;
  case 5:
    server_hears(w);
    break;
  case 6:
    server_says(w, n * 4u);
    break;
  case 7:
    server_does(w, n);
    break;
  case 8:
    we_say(w, n * 16u);
    break;
  case 9:
    we_hear(w, n * 8u);
    break;
  default:
    (void)dlk_net_secure_push(w->x, w->fds[0]);
    break;
  }
}

/* Nothing was changed: whoever goes on long enough has all of it. */
static void finish(struct world *w) {
  for (int i = 0; i < 2000; i++) {
    bool all = w->greeted && w->owed == 0 && w->down.heard == w->down.told &&
               w->up.heard == w->up.told && w->on_wire == 0;
    if (all && (!w->bye || w->ended) && BIO_pending(w->from_server) == 0)
      break;
    server_hears(w);
    pick_up(w, sizeof w->wire);
    deliver(w);
    we_hear(w, 2047);
    if (w->owed > 0)
      we_say(w, 0);
    (void)dlk_net_secure_push(w->x, w->fds[0]);
  }
  MUST(w->greeted && !w->failed && w->down.heard == w->down.told);
  MUST(w->up.heard == w->up.told && w->ended == w->bye);
  MUST(w->owed == 0 || w->ended);
}

static void begin(struct world *w, const struct dlk_net_address *address,
                  SSL_CTX *ctx) {
  struct dlk_tls_fault fault;
  MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, w->fds) == 0);
  int small = 4096;
  MUST(setsockopt(w->fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small) == 0);
  w->x = dlk_net_secure_new(address, &fault);
  w->server = SSL_new(ctx);
  w->to_server = BIO_new(BIO_s_mem());
  w->from_server = BIO_new(BIO_s_mem());
  MUST(w->x && w->server && w->to_server && w->from_server);
  SSL_set_bio(w->server, w->to_server, w->from_server);
  SSL_set_accept_state(w->server);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct input in = {data, data + size};
  uint8_t kind = input_byte(&in);
  struct dlk_tls_settings settings = {.cafile = trusted,
                                      .verify = (kind & 2) == 0};
  struct dlk_net_tls tls = {.lib = &watched,
                            .client = lib->client_new(&settings)};
  struct dlk_net_address address = {
      .host = "localhost", .port = 6379, .tls = &tls};
  struct world w = {0};
  state = kind;
  MUST(tls.client != NULL);
  begin(&w, &address, contexts[kind & 1]);
  for (int i = 0; i < DEEDS && in.p < in.end; i++)
    deed(&w, &in);
  if (!w.changed)
    finish(&w);
  dlk_net_secure_close(w.x, w.fds[0]);
  SSL_free(w.server);
  lib->client_free(tls.client);
  close(w.fds[0]);
  close(w.fds[1]);
  ERR_clear_error();
  return 0;
}
