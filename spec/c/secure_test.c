/* The Redis store's side of TLS (net/secure.c) on a pair of sockets, whose
 * other end is OpenSSL's: what has to wait for the other way, and how it is
 * told. usage: secure_test DIR (spec/support/certificates.lua). */
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "check.h"
#include "net/secure.h"
#include "net/tls.h"

const struct dlk_tls_library *dlock_tls_library(const char **why);

static const char *certificates;
static struct dlk_net_tls tls;
static SSL_CTX *ctx;

struct pair {
  struct dlk_net_secure *x;
  SSL *server;
  int ours, theirs;
};

static const char *path(const char *name) {
  static char at[4][512];
  static unsigned next;
  char *p = at[next++ % 4];
  snprintf(p, sizeof at[0], "%s/%s", certificates, name);
  return p;
}

static void open_pair(struct pair *p) {
  int fds[2], small = 8192;
  struct dlk_tls_fault fault = {DLK_OK, ""};
  struct dlk_net_address address = {
      .host = "localhost", .port = 6379, .tls = &tls};
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  p->ours = fds[0];
  p->theirs = fds[1];
  CHECK(setsockopt(p->ours, SOL_SOCKET, SO_SNDBUF, &small, sizeof small) == 0);
  CHECK(fcntl(p->theirs, F_SETFL, O_NONBLOCK) == 0);
  p->x = dlk_net_secure_new(&address, &fault);
  p->server = SSL_new(ctx);
  CHECK(p->x && p->server && SSL_set_fd(p->server, p->theirs) == 1);
  SSL_set_accept_state(p->server);
  enum dlk_net_greeting greeting = DLK_NET_GREETING;
  for (int i = 0; i < 100 && greeting == DLK_NET_GREETING; i++) {
    greeting = dlk_net_secure_greet(p->x, p->ours, &fault);
    (void)SSL_do_handshake(p->server);
  }
  CHECK(greeting == DLK_NET_GREETED && SSL_do_handshake(p->server) == 1);
}

static void close_pair(struct pair *p) {
  dlk_net_secure_close(p->x, p->ours);
  SSL_free(p->server);
  close(p->ours);
  if (p->theirs >= 0)
    close(p->theirs);
}

/* ---- the tests ---- */

/* Who reads nothing gets no more than is allowed to wait, and all of it when he
 * reads. */
TEST(peer_reads_later) {
  struct pair p;
  open_pair(&p);
  static char text[400000], got[400000];
  for (size_t i = 0; i < sizeof text; i++)
    text[i] = (char)(i * 7 >> 2);
  size_t at = 0, came = 0;
  int stops = 0;
  for (int i = 0; i < 100000 && came < sizeof text; i++) {
    if (at < sizeof text) {
      ssize_t n = dlk_net_secure_send(p.x, p.ours, text + at, sizeof text - at);
      CHECK(n > 0 || errno == EAGAIN);
      at += n > 0 ? (size_t)n : 0;
      stops += n < 0;
    }
    bool waits = dlk_net_secure_waits(p.x);
    CHECK(waits || at == came || at == sizeof text);
    if (waits) /* else nobody would come back */
      CHECK(dlk_net_secure_push(p.x, p.ours));
    int n = SSL_read(p.server, got + came, 3000);
    came += n > 0 ? (size_t)n : 0;
  }
  CHECK(stops > 0 && came == sizeof text && memcmp(text, got, came) == 0);
  CHECK(!dlk_net_secure_waits(p.x));
  close_pair(&p);
}

/* Reading has to answer, and nobody takes the answers: it rests, says so, and
 * goes on without another byte from the peer. */
TEST(reading_waits_for_room) {
  struct pair p;
  open_pair(&p);
  char got[64];
  size_t said = 0, came = 0;
  bool stuck = false;
  for (int i = 0; i < 100000 && !stuck; i++) {
    if (SSL_key_update(p.server, SSL_KEY_UPDATE_REQUESTED) == 1 &&
        SSL_write(p.server, "x", 1) == 1)
      said++;
    ssize_t n = dlk_net_secure_recv(p.x, p.ours, got, sizeof got, false);
    CHECK(n > 0 || errno == EAGAIN);
    came += n > 0 ? (size_t)n : 0;
    stuck = dlk_net_secure_holds(p.x);
    CHECK(!stuck || dlk_net_secure_waits(p.x));
  }
  CHECK(stuck);
  for (int i = 0; i < 1000; i++) { /* until nothing is left to send */
    CHECK(dlk_net_secure_push(p.x, p.ours));
    (void)SSL_read(p.server, got, sizeof got);
    ERR_clear_error();
  }
  CHECK(dlk_net_secure_holds(p.x) && dlk_net_secure_waits(p.x));
  for (int i = 0; i < 100000 && came < said; i++) {
    (void)SSL_read(p.server, got, sizeof got); /* takes answers */
    ERR_clear_error();
    CHECK(dlk_net_secure_push(p.x, p.ours));
    ssize_t n = dlk_net_secure_recv(p.x, p.ours, got, sizeof got, false);
    CHECK(n > 0 || errno == EAGAIN);
    came += n > 0 ? (size_t)n : 0;
  }
  CHECK(came == said);
  close_pair(&p);
}

/* Tickets that do not fit into one record. */
static int large_ticket(SSL *ssl, void *arg) {
  static char more[2000];
  (void)arg;
  return SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), more,
                                         sizeof more);
}

static SSL_TICKET_RETURN no_ticket(SSL *ssl, SSL_SESSION *session,
                                   const unsigned char *name, size_t len,
                                   SSL_TICKET_STATUS status, void *arg) {
  (void)ssl;
  (void)session;
  (void)name;
  (void)len;
  (void)status;
  (void)arg;
  return SSL_TICKET_RETURN_IGNORE;
}

/* The bytes of a ticket, and of an answer behind it. */
static size_t ticket_and_answer(struct pair *p, char *out, size_t room) {
  BIO *memory = BIO_new(BIO_s_mem());
  BIO *socket = SSL_get_rbio(p->server);
  CHECK(memory && BIO_up_ref(socket) == 1);
  SSL_set0_wbio(p->server, memory);
  CHECK(SSL_new_session_ticket(p->server) == 1);
  CHECK(SSL_write(p->server, "+", 1) == 1);
  int n = BIO_read(memory, out, (int)room);
  SSL_set0_wbio(p->server, socket);
  CHECK(n > 0 && (size_t)n < room);
  return (size_t)n;
}

TEST(writing_waits_for_input) {
  struct pair p;
  open_pair(&p);
  char bytes[16384], got[64];
  while (dlk_net_secure_recv(p.x, p.ours, got, sizeof got, false) > 0)
    ;
  SSL_set_max_send_fragment(p.server, 512); /* a ticket is five records */
  size_t n = ticket_and_answer(&p, bytes, sizeof bytes), half = 1200;
  CHECK(send(p.theirs, bytes, half, 0) == (ssize_t)half);
  CHECK(dlk_net_secure_recv(p.x, p.ours, got, sizeof got, false) == -1);
  ssize_t sent = dlk_net_secure_send(p.x, p.ours, "PING", 4);
  CHECK(sent == -1 && errno == EAGAIN);
  CHECK(!dlk_net_secure_waits(p.x)); /* there is nothing to poll for */
  CHECK(send(p.theirs, bytes + half, n - half, 0) == (ssize_t)(n - half));
  CHECK(dlk_net_secure_recv(p.x, p.ours, got, sizeof got, false) == 1);
  CHECK(dlk_net_secure_waits(p.x));
  CHECK(dlk_net_secure_send(p.x, p.ours, "PING", 4) == 4);
  CHECK(SSL_read(p.server, got, sizeof got) == 4);
  CHECK(!dlk_net_secure_waits(p.x));
  close_pair(&p);
}

/* An answer, and what ends the connection, in one piece. */
TEST(an_end_behind_bytes) {
  for (int how = 0; how < 3; how++) {
    struct pair p;
    open_pair(&p);
    char got[64];
    CHECK(SSL_write(p.server, "+OK", 3) == 3);
    if (how == 0)
      CHECK(send(p.theirs, "what?", 5, 0) == 5);
    else if (how == 1)
      CHECK(SSL_shutdown(p.server) >= 0);
    if (how == 2) {
      close(p.theirs);
      p.theirs = -1;
    }
    CHECK(dlk_net_secure_recv(p.x, p.ours, got, sizeof got, false) == 3);
    ssize_t n = dlk_net_secure_recv(p.x, p.ours, got, sizeof got, false);
    CHECK(how == 0 ? n == -1 && errno == EPROTO : n == 0);
    struct dlk_tls_fault fault;
    dlk_net_secure_fault(p.x, &fault);
    CHECK(fault.text[0] && fault.code != DLK_OK);
    close_pair(&p);
  }
}

/* The caller's memory is full: what is left needs no poll. */
TEST(a_small_memory) {
  struct pair p;
  open_pair(&p);
  char text[5000], got[5000];
  memset(text, 'a', sizeof text);
  CHECK(SSL_write(p.server, text, sizeof text) == sizeof text);
  size_t came = 0;
  ssize_t n;
  while ((n = dlk_net_secure_recv(p.x, p.ours, got + came, 100, false)) == 100)
    came += 100;
  CHECK(n == -1 && errno == EAGAIN && came == sizeof text);
  CHECK(memcmp(text, got, came) == 0);
  close_pair(&p);
}

/* The one read that blocks does so for as long as the socket says, and gives
 * what comes. */
TEST(awaiting) {
  struct pair p;
  open_pair(&p);
  char got[64];
  struct timeval most = {.tv_usec = 20000};
  CHECK(setsockopt(p.ours, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most) == 0);
  while (dlk_net_secure_recv(p.x, p.ours, got, sizeof got, false) > 0)
    ;
  CHECK(dlk_net_secure_recv(p.x, p.ours, got, sizeof got, true) == -1);
  CHECK(errno == EAGAIN);
  CHECK(SSL_write(p.server, "+OK", 3) == 3);
  CHECK(dlk_net_secure_recv(p.x, p.ours, got, sizeof got, true) == 3);
  close_pair(&p);
}

int main(int argc, char **argv) {
  const char *why;
  certificates = argc > 1 ? argv[1] : ".";
  tls.lib = dlock_tls_library(&why);
  tls.settings =
      (struct dlk_tls_settings){.cafile = path("ca.crt"), .verify = true};
  tls.client = tls.lib ? tls.lib->client_new(&tls.settings) : NULL;
  ctx = SSL_CTX_new(TLS_server_method());
  if (!tls.client || !ctx ||
      SSL_CTX_use_certificate_file(ctx, path("server.crt"), 1) != 1 ||
      SSL_CTX_use_PrivateKey_file(ctx, path("server.key"), 1) != 1)
    return 2;
  SSL_CTX_set_session_ticket_cb(ctx, large_ticket, no_ticket, NULL);
  SSL_CTX_set_session_id_context(ctx, (const void *)"t", 1);
  int bad = check_all();
  tls.lib->client_free(tls.client);
  SSL_CTX_free(ctx);
  return bad;
}
