/* TLS as bytes in and bytes out (csrc/tls), against OpenSSL's server in memory:
 * what no server does when it is asked to. usage: tls_test DIR, where
 * spec/support/certificates.lua made its certificates. */
#include <ctype.h>

#include "tls_pair.h"

/* ---- the tests ---- */

TEST(byte_by_byte) {
  for (int v = 0; v < 2; v++) {
    struct dlk_tls_settings settings = trusting();
    struct dlk_tls_client *client = lib->client_new(&settings);
    SSL_CTX *ctx = server_context(versions[v]);
    struct pair p;
    open_pair(&p, client, ctx);
    CHECK(greet(&p, 1) == DLK_TLS_DONE);
    asked(&p, "PING");
    told(&p, "+PONG", 1);
    end_pair(&p, ctx);
  }
}

/* All that the server says is one string of bytes; it comes in two pieces, cut
 * at each of them in turn. */
TEST(cut_at_every_byte) {
  for (int v = 0; v < 2; v++) {
    struct dlk_tls_settings settings = trusting();
    struct dlk_tls_client *client = lib->client_new(&settings);
    SSL_CTX *ctx = server_context(versions[v]);
    size_t cut = 1;
    for (bool cuts = true; cuts; cut++) {
      struct pair p;
      SSL_CTX_set_num_tickets(ctx, cut % 3);
      open_pair(&p, client, ctx);
      size_t came = 0;
      enum dlk_tls_step step;
      while ((step = lib->handshake(p.c)) == DLK_TLS_WANTS_INPUT) {
        (void)carry_up(&p);
        (void)SSL_do_handshake(p.server);
        came += carry_down(&p, came < cut ? cut - came : SIZE_MAX);
        cuts = came >= cut && cut < 700; /* resumed: some 300 */
      }
      CHECK(step == DLK_TLS_DONE);
      (void)carry_up(&p);
      CHECK(SSL_do_handshake(p.server) == 1);
      asked(&p, "PING");
      told(&p, "+PONG", 1 + cut % 40);
      close_pair(&p);
    }
    CHECK(cut > 100);
    lib->client_free(client);
    SSL_CTX_free(ctx);
  }
}

/* The server asks for new keys again and again, and takes no answer. */
TEST(key_updates) {
  struct dlk_tls_settings settings = trusting();
  struct dlk_tls_client *client = lib->client_new(&settings);
  SSL_CTX *ctx = server_context(TLS1_3_VERSION);
  struct pair p;
  open_pair(&p, client, ctx);
  CHECK(greet(&p, SIZE_MAX) == DLK_TLS_DONE);
  size_t most = 0, waiting;
  bool stopped = false;
  for (int i = 0; i < 8000; i++) {
    CHECK(SSL_key_update(p.server, SSL_KEY_UPDATE_REQUESTED) == 1);
    CHECK(SSL_write(p.server, "x", 1) == 1);
    char got[8];
    enum dlk_tls_step step;
    if (!stopped) {
      (void)carry_down(&p, SIZE_MAX);
      (void)read_all(&p, got, sizeof got, &step);
      stopped = step == DLK_TLS_WANTS_ROOM;
    }
    (void)lib->out(p.c, &waiting);
    most = waiting > most ? waiting : most;
  }
  size_t bound = DLK_TLS_AHEAD + DLK_TLS_ANSWERS;
  CHECK(stopped && most >= bound && most < bound + 20000);
  /* Once there is room, it goes on where it stopped: nothing is lost. */
  (void)carry_up(&p);
  size_t xs = 0, rounds = 0;
  char got[1024];
  enum dlk_tls_step step;
  for (;;) {
    xs += read_all(&p, got, sizeof got, &step);
    (void)carry_up(&p);
    CHECK(step != DLK_TLS_FAILED && ++rounds < 100000);
    if (step == DLK_TLS_WANTS_INPUT && carry_down(&p, SIZE_MAX) == 0)
      break;
  }
  CHECK(xs > 1000);
  (void)SSL_read(p.server, got, sizeof got); /* takes the answers */
  CHECK(lib->renew_keys(p.c));
  asked(&p, "PING");
  told(&p, "+PONG", 7);
  end_pair(&p, ctx);
}

TEST(tickets) {
  struct dlk_tls_settings settings = trusting();
  struct dlk_tls_client *client = lib->client_new(&settings);
  SSL_CTX *ctx = server_context(TLS1_3_VERSION);
  struct pair p;
  open_pair(&p, client, ctx);
  CHECK(greet(&p, SIZE_MAX) == DLK_TLS_DONE);
  for (int i = 0; i < 1000; i++) {
    CHECK(SSL_new_session_ticket(p.server) == 1);
    char text[16];
    snprintf(text, sizeof text, "+%d", i);
    told(&p, text, 200);
  }
  size_t waiting;
  (void)lib->out(p.c, &waiting);
  CHECK(waiting == 0);
  end_pair(&p, ctx);
}

/* Half a ticket has come: a write has to wait for the other half. */
TEST(write_behind_half_a_ticket) {
  struct dlk_tls_settings settings = trusting();
  struct dlk_tls_client *client = lib->client_new(&settings);
  SSL_CTX *ctx = server_context(TLS1_3_VERSION);
  /* In records that hold a part of a ticket each. */
  CHECK(SSL_CTX_set_max_send_fragment(ctx, 512) == 1);
  struct pair p;
  open_pair(&p, client, ctx);
  CHECK(greet(&p, SIZE_MAX) == DLK_TLS_DONE);
  char big[600], got[16];
  memset(big, 't', sizeof big);
  while (carry_down(&p, SIZE_MAX) > 0) {
    enum dlk_tls_step step;
    (void)read_all(&p, got, sizeof got, &step);
  }
  /* The certificate in its session makes the ticket a long one. */
  CHECK(SSL_new_session_ticket(p.server) == 1);
  CHECK(SSL_write(p.server, "+", 1) == 1);
  size_t whole = BIO_ctrl_pending(p.from_server), did;
  CHECK(carry_down(&p, whole - 60) > 0);
  enum dlk_tls_step step;
  (void)read_all(&p, got, sizeof got, &step);
  CHECK(step == DLK_TLS_WANTS_INPUT);
  step = lib->write(p.c, "PING", 4, &did);
  CHECK(step == DLK_TLS_DONE || step == DLK_TLS_WANTS_INPUT);
  bool waited = step == DLK_TLS_WANTS_INPUT;
  CHECK(carry_down(&p, SIZE_MAX) > 0);
  CHECK(read_all(&p, got, sizeof got, &step) == 1);
  if (waited)
    CHECK(lib->write(p.c, "PING", 4, &did) == DLK_TLS_DONE);
  CHECK(carry_up(&p) > 0);
  CHECK(SSL_read(p.server, big, sizeof big) == 4);
  end_pair(&p, ctx);
}

TEST(sessions_are_used_once) {
  for (int v = 0; v < 2; v++) {
    struct dlk_tls_settings settings = trusting();
    struct dlk_tls_client *client = lib->client_new(&settings);
    SSL_CTX *ctx = server_context(versions[v]);
    struct pair p, q;
    /* 1 has nothing to resume; 2 has; so has 3, by what 2 was given. */
    for (int i = 1; i <= 3; i++) {
      open_pair(&p, client, ctx);
      CHECK(greet(&p, SIZE_MAX) == DLK_TLS_DONE);
      CHECK(lib->resumed(p.c) == (i > 1));
      told(&p, "+", SIZE_MAX);
      if (i == 3) /* 3 took what 2 left; its own came, for one more */
        break;
      close_pair(&p);
    }
    open_pair(&q, client, ctx);
    struct pair r;
    open_pair(&r, client, ctx);
    CHECK(greet(&r, SIZE_MAX) == DLK_TLS_DONE);
    CHECK(!lib->resumed(r.c)); /* q has it */
    close_pair(&r);
    close_pair(&q);
    end_pair(&p, ctx);
  }
}

/* A session that a handshake failed with is not tried again. */
TEST(failed_session_is_dropped) {
  struct dlk_tls_settings settings = trusting();
  struct dlk_tls_client *client = lib->client_new(&settings);
  SSL_CTX *ctx = server_context(TLS1_3_VERSION);
  struct pair p;
  open_pair(&p, client, ctx);
  CHECK(greet(&p, SIZE_MAX) == DLK_TLS_DONE);
  told(&p, "+", SIZE_MAX);
  close_pair(&p);
  open_pair(&p, client, ctx);
  CHECK(lib->handshake(p.c) == DLK_TLS_WANTS_INPUT);
  lib->feed(p.c, "\x15\x03\x03\x00\x02\x02\x28", 7); /* handshake_failure */
  CHECK(lib->handshake(p.c) == DLK_TLS_FAILED);
  close_pair(&p);
  open_pair(&p, client, ctx);
  CHECK(greet(&p, SIZE_MAX) == DLK_TLS_DONE && !lib->resumed(p.c));
  end_pair(&p, ctx);
}

/* Another server stands where the good one stood: its certificate is looked at,
 * although a session of the good one is offered. */
TEST(impostor_behind_a_session) {
  static const char *const impostors[] = {"self", "named"};
  for (int i = 0; i < 4; i++) {
    struct dlk_tls_settings settings = trusting();
    struct dlk_tls_client *client = lib->client_new(&settings);
    SSL_CTX *good = server_context(versions[i % 2]);
    SSL_CTX *bad = context_of(versions[i % 2], impostors[i / 2]);
    struct pair p;
    for (int turn = 0; turn < 2; turn++) {
      open_pair(&p, client, good);
      CHECK(greet(&p, SIZE_MAX) == DLK_TLS_DONE);
      CHECK(lib->resumed(p.c) == (turn > 0));
      told(&p, "+", SIZE_MAX);
      close_pair(&p);
    }
    struct dlk_tls_fault fault;
    open_pair(&p, client, bad);
    CHECK(greet(&p, SIZE_MAX) == DLK_TLS_FAILED);
    lib->fault(p.c, &fault);
    CHECK(fault.code == DLK_DENIED);
    SSL_CTX_free(good);
    end_pair(&p, bad);
  }
}

static void copy_file(const char *from, const char *to) {
  char text[8192];
  FILE *in = fopen(path(from), "r");
  CHECK(in);
  size_t n = fread(text, 1, sizeof text, in);
  fclose(in);
  FILE *out = fopen(path(to), "w");
  CHECK(out && fwrite(text, 1, n, out) == n);
  CHECK(fclose(out) == 0);
}

/* A handshake is under way when the cafile changes to one that does not know
 * the server. The session that comes of it is of no use any more: seen: another
 * connection is made before it comes. */
TEST(session_from_before_a_new_cafile) {
  for (int i = 0; i < 4; i++) {
    bool seen = i / 2;
    struct dlk_tls_settings settings = trusting();
    char ca[512];
    copy_file("ca.crt", "now.crt");
    snprintf(ca, sizeof ca, "%s", path("now.crt"));
    settings.cafile = ca;
    struct dlk_tls_client *client = lib->client_new(&settings);
    SSL_CTX *ctx = server_context(versions[i % 2]);
    struct pair p, q;
    open_pair(&p, client, ctx);
    CHECK(lib->handshake(p.c) == DLK_TLS_WANTS_INPUT);
    copy_file("other.crt", "now.crt");
    if (seen) {
      open_pair(&q, client, ctx);
      CHECK(greet(&q, SIZE_MAX) == DLK_TLS_FAILED);
      close_pair(&q);
    }
    CHECK(greet(&p, SIZE_MAX) == DLK_TLS_DONE);
    told(&p, "+", SIZE_MAX);
    close_pair(&p);
    open_pair(&q, client, ctx);
    CHECK(greet(&q, SIZE_MAX) == DLK_TLS_FAILED);
    end_pair(&q, ctx);
  }
}

/* More than may wait is not taken, and all that was arrives in order. */
TEST(no_room) {
  struct dlk_tls_settings settings = trusting();
  struct dlk_tls_client *client = lib->client_new(&settings);
  SSL_CTX *ctx = server_context(TLS1_3_VERSION);
  struct pair p;
  open_pair(&p, client, ctx);
  CHECK(greet(&p, SIZE_MAX) == DLK_TLS_DONE);
  static char text[300000], got[300000];
  for (size_t i = 0; i < sizeof text; i++)
    text[i] = (char)(i * 31 >> 3);
  size_t at = 0, came = 0, did, waiting, stops = 0;
  while (at < sizeof text) {
    enum dlk_tls_step step = lib->write(p.c, text + at, sizeof text - at, &did);
    (void)lib->out(p.c, &waiting);
    CHECK(waiting < DLK_TLS_AHEAD + 20000);
    if (step == DLK_TLS_DONE) {
      at += did;
      continue;
    }
    CHECK(step == DLK_TLS_WANTS_ROOM && ++stops < 100);
    (void)carry_up(&p);
  }
  (void)carry_up(&p);
  int n;
  while ((n = SSL_read(p.server, got + came, (int)(sizeof got - came))) > 0)
    came += (size_t)n;
  CHECK(stops > 2 && came == sizeof text && memcmp(text, got, came) == 0);
  end_pair(&p, ctx);
}

/* Nothing more can be sent, and the server asks for new keys: reading goes on,
 * and what was not written is, later. */
TEST(keys_behind_a_write) {
  struct dlk_tls_settings settings = trusting();
  struct dlk_tls_client *client = lib->client_new(&settings);
  SSL_CTX *ctx = server_context(TLS1_3_VERSION);
  static char text[300000];
  enum dlk_tls_step step;
  struct pair p;
  size_t sent = 0, heard = 0, did;
  open_pair(&p, client, ctx);
  CHECK(greet(&p, SIZE_MAX) == DLK_TLS_DONE);
  while ((step = lib->write(p.c, text, 4081, &did)) == DLK_TLS_DONE)
    sent += did;
  CHECK(step == DLK_TLS_WANTS_ROOM);
  for (int i = 0; i < 2; i++) {
    CHECK(SSL_key_update(p.server, SSL_KEY_UPDATE_REQUESTED) == 1);
    CHECK(SSL_do_handshake(p.server) == 1);
  }
  told(&p, "+", SIZE_MAX);
  (void)carry_up(&p);
  CHECK(lib->write(p.c, text, 4081, &did) == DLK_TLS_DONE && did == 4081);
  (void)carry_up(&p);
  while (SSL_read_ex(p.server, text, sizeof text, &did) == 1)
    heard += did;
  CHECK(heard == sent + 4081);
  end_pair(&p, ctx);
}

TEST(ends) {
  for (int v = 0; v < 2; v++) {
    struct dlk_tls_settings settings = trusting();
    struct dlk_tls_client *client = lib->client_new(&settings);
    SSL_CTX *ctx = server_context(versions[v]);
    struct pair p;
    char got[8];
    open_pair(&p, client, ctx);
    CHECK(greet(&p, SIZE_MAX) == DLK_TLS_DONE);
    CHECK(SSL_write(p.server, "+", 1) == 1 && SSL_shutdown(p.server) == 0);
    while (carry_down(&p, SIZE_MAX) > 0)
      ;
    enum dlk_tls_step step;
    CHECK(read_all(&p, got, sizeof got, &step) == 1);
    CHECK(step == DLK_TLS_ENDED);
    lib->finish(p.c);
    CHECK(carry_up(&p) > 0 && SSL_read(p.server, got, sizeof got) <= 0);
    CHECK(SSL_get_shutdown(p.server) & SSL_RECEIVED_SHUTDOWN);
    end_pair(&p, ctx);
  }
}

/* Bytes that are no TLS, or were changed on the way: a fault in words, at once,
 * and nothing more. */
TEST(noise) {
  struct dlk_tls_settings settings = trusting();
  struct dlk_tls_client *client = lib->client_new(&settings);
  SSL_CTX *ctx = server_context(TLS1_3_VERSION);
  for (int round = 0; round < 2000; round++) {
    struct pair p;
    open_pair(&p, client, ctx);
    bool greeted = round % 2 && greet(&p, SIZE_MAX) == DLK_TLS_DONE;
    char bytes[512], got[64];
    enum dlk_tls_step step = DLK_TLS_WANTS_INPUT;
    if (!greeted)
      (void)lib->handshake(p.c);
    for (int i = 0; i < 50 && step == DLK_TLS_WANTS_INPUT; i++) {
      size_t n = 1 + check_random(sizeof bytes - 1);
      for (size_t k = 0; k < n; k++)
        bytes[k] = (char)check_random(256);
      if (round % 4 < 2 && i == 0 && n > 5) { /* as far as a record's head */
        memcpy(bytes, "\x16\x03\x03", 3);
        bytes[3] = 0;
      }
      lib->feed(p.c, bytes, n);
      if (greeted)
        (void)read_all(&p, got, sizeof got, &step);
      else
        step = lib->handshake(p.c);
      lib->keep(p.c);
    }
    CHECK(step == DLK_TLS_FAILED);
    struct dlk_tls_fault fault;
    lib->fault(p.c, &fault);
    CHECK(fault.code != DLK_OK && fault.text[0]);
    for (const char *c = fault.text; *c; c++)
      CHECK(isprint((unsigned char)*c));
    lib->finish(p.c);
    close_pair(&p);
  }
  lib->client_free(client);
  SSL_CTX_free(ctx);
}

int main(int argc, char **argv) {
  return pair_tests(argc, argv);
}
