/* No call of the library's table is in OpenSSL outside of the gate: the exit of
 * the process, and a fork, would not wait for it. The functions of OpenSSL that
 * the channel needs are wrapped here (but SSL_new, whose place is looked at);
 * calls of the server in the test do not count. usage: tls_gate_test DIR, as
 * tls_test. */
#include "tls_pair.h"

static unsigned inside, calls, outside;

bool __real_dlk_tls_enter(void);
void __real_dlk_tls_leave(void);
bool __wrap_dlk_tls_enter(void);
void __wrap_dlk_tls_leave(void);

bool __wrap_dlk_tls_enter(void) {
  bool in = __real_dlk_tls_enter();
  inside += in;
  return in;
}

void __wrap_dlk_tls_leave(void) {
  inside--;
  __real_dlk_tls_leave();
}

static bool ours; /* a call of the table is under way */

static void look(void) {
  calls += ours;
  outside += ours && inside == 0;
}

#define WRAP(type, name, parameters, arguments)                                \
  type __real_##name parameters;                                               \
  type __wrap_##name parameters;                                               \
  type __wrap_##name parameters {                                              \
    look();                                                                    \
    return __real_##name arguments;                                            \
  }

WRAP(SSL_CTX *, SSL_CTX_new, (const SSL_METHOD *m), (m))
WRAP(void, SSL_CTX_free, (SSL_CTX * c), (c))
WRAP(void, SSL_free, (SSL * s), (s))
WRAP(int, SSL_do_handshake, (SSL * s), (s))
WRAP(int, SSL_read_ex, (SSL * s, void *p, size_t n, size_t *did),
     (s, p, n, did))
WRAP(int, SSL_write_ex, (SSL * s, const void *p, size_t n, size_t *did),
     (s, p, n, did))
WRAP(int, SSL_shutdown, (SSL * s), (s))
WRAP(int, SSL_has_pending, (const SSL *s), (s))
WRAP(int, SSL_get_shutdown, (const SSL *s), (s))
WRAP(int, SSL_key_update, (SSL * s, int how), (s, how))
WRAP(int, SSL_session_reused, (const SSL *s), (s))
WRAP(const char *, SSL_get_version, (const SSL *s), (s))

#define OURS(call)                                                             \
  do {                                                                         \
    unsigned before = outside;                                                 \
    ours = true;                                                               \
    call;                                                                      \
    ours = false;                                                              \
    if (outside != before)                                                     \
      puts("outside of the gate: " #call);                                     \
  } while (0)

TEST(every_call_is_inside) {
  struct dlk_tls_settings settings = trusting();
  struct dlk_tls_client *client = NULL;
  SSL_CTX *ctx = server_context(TLS1_3_VERSION);
  struct dlk_tls_fault fault;
  struct pair p;
  char got[8];
  size_t did, n;
  OURS(client = lib->client_new(&settings));
  open_pair(&p, client, ctx);
  OURS((void)lib->handshake(p.c));
  CHECK(greet(&p, SIZE_MAX) == DLK_TLS_DONE);
  CHECK(SSL_write(p.server, "+", 1) == 1);
  char bytes[16384];
  int len = BIO_read(p.from_server, bytes, sizeof bytes);
  CHECK(len > 0);
  OURS(lib->feed(p.c, bytes, (size_t)len));
  OURS(lib->keep(p.c));
  OURS((void)lib->read(p.c, got, sizeof got, &did));
  OURS((void)lib->pending(p.c));
  OURS((void)lib->write(p.c, "x", 1, &did));
  OURS((void)lib->out(p.c, &n));
  OURS(lib->sent(p.c, n));
  OURS((void)lib->protocol(p.c));
  OURS((void)lib->resumed(p.c));
  OURS((void)lib->renew_keys(p.c));
  OURS(lib->fault(p.c, &fault));
  OURS(lib->finish(p.c));
  OURS(lib->channel_free(p.c));
  OURS(lib->client_free(client));
  SSL_free(p.server);
  SSL_CTX_free(ctx);
  CHECK(calls > 10 && outside == 0 && inside == 0);
}

int main(int argc, char **argv) {
  return pair_tests(argc, argv);
}
