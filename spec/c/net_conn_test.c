/* A connection (net/conn.h) that speaks a protocol of two words: HELLO is
 * answered by WELCOME, and each other line by itself. The test is the server.
 */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "host.h"
#include "net/conn.h"

#define CONNECT_TIMEOUT (30 * DLK_SEC)
#define IO_TIMEOUT (20 * DLK_SEC)

/* ---- the protocol ---- */

static struct echo {
  struct dlk_net_conn net; /* first */
  int waiting, flying;     /* lines */
  int64_t sent;            /* the oldest that flies */
  char in[64];             /* the beginning of an answer */
  size_t in_len;
  bool needed;
  int answered, broken, failed;
  struct dlk_error why; /* of the last end */
} echo;

static bool greet(struct dlk_net_conn *c) {
  dlk_buf_add(&c->out, "HELLO\n", 6);
  return !c->out.failed;
}

/* False: that was the end of the connection. */
static bool heard_line(struct dlk_net_conn *c, const char *line) {
  struct dlk_error no;
  if (c->state != DLK_NET_HANDSHAKE) {
    CHECK(echo.flying > 0 && strcmp(line, "line") == 0);
    echo.flying--;
    echo.answered++;
    return true;
  }
  if (strcmp(line, "WELCOME") == 0) {
    dlk_net_conn_ready(c);
    return true;
  }
  dlk_error_set(&no, DLK_DENIED, "it says %s", line);
  dlk_net_conn_refuse(c, &no);
  return false;
}

static bool take(struct dlk_net_conn *c, const char *bytes, size_t n) {
  for (size_t i = 0; i < n; i++) {
    echo.in[echo.in_len++] = bytes[i] == '\n' ? '\0' : bytes[i];
    if (bytes[i] != '\n')
      continue;
    echo.in_len = 0;
    if (!heard_line(c, echo.in))
      return false;
  }
  return true;
}

static void closed(struct dlk_net_conn *c) {
  (void)c;
  echo.in_len = 0;
}

static void broken(struct dlk_net_conn *c, const struct dlk_error *why) {
  CHECK(c->state == DLK_NET_OFF || c->state == DLK_NET_PAUSE);
  echo.flying = 0;
  echo.broken++;
  echo.why = *why;
}

static void failed(struct dlk_net_conn *c, const struct dlk_error *why) {
  CHECK(c->state == DLK_NET_PAUSE || c->state == DLK_NET_STOPPED);
  echo.flying = echo.waiting = 0;
  echo.failed++;
  echo.why = *why;
}

static bool waits(const struct dlk_net_conn *c) {
  (void)c;
  return echo.waiting > 0;
}

static int64_t oldest(const struct dlk_net_conn *c) {
  (void)c;
  return echo.flying > 0 ? echo.sent : -1;
}

static bool needed(struct dlk_net_conn *c) {
  (void)c;
  return echo.needed;
}

static const struct dlk_net_protocol protocol = {.greet = greet,
                                                 .take = take,
                                                 .closed = closed,
                                                 .broken = broken,
                                                 .failed = failed,
                                                 .waits = waits,
                                                 .oldest = oldest,
                                                 .needed = needed,
                                                 .ping = "PING\n",
                                                 .mute = "says nothing",
                                                 .hung_up = " at HELLO"};

static void flush(void) {
  struct dlk_net_conn *c = &echo.net;
  int64_t at = dlk_net_conn_now(c);
  dlk_net_conn_wake(c);
  if (echo.waiting == 0 || !dlk_net_conn_usable(c, at, false))
    return;
  for (; echo.waiting > 0; echo.waiting--, echo.flying++)
    dlk_buf_add(&c->out, "line\n", 5);
  echo.sent = at;
  dlk_net_conn_asked(c, at);
}

static void ask(void) {
  echo.waiting++;
  flush();
}

/* ---- the connection alone, as if it were a store ---- */

static struct dlk_net_fixed fixed;
static unsigned alive;
static bool stopping;
static struct host *host;

static void gone(void *arg) {
  struct dlk_net_conn *c = arg;
  if (stopping && alive == 0)
    c->host->stopped(c->host);
}

static enum dlk_code create(struct dlk_host *h, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  (void)err;
  memset(&echo, 0, sizeof echo);
  stopping = false;
  dlk_net_fixed_init(&fixed, conf, 0, 0, NULL);
  dlk_net_conn_init(&echo.net);
  echo.net.host = h;
  echo.net.conf = conf;
  echo.net.endpoint = &fixed.endpoint;
  echo.net.protocol = &protocol;
  echo.net.connect_timeout = conf->connect_timeout;
  echo.net.gone = gone;
  echo.net.alive = &alive;
  *out = &echo.net;
  return DLK_OK;
}

static void stop(void *store) {
  stopping = true;
  alive++;
  dlk_net_conn_stop(store);
  alive--;
  gone(store);
}

static void destroy(void *store) {
  dlk_net_conn_free(store);
}

static const struct dlk_store_type bare = {
    .create = create, .stop = stop, .destroy = destroy};

/* ---- the server ---- */

static int listener = -1, server = -1;

static void open_it(void) {
  struct sockaddr_in a = {.sin_family = AF_INET,
                          .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t len = sizeof a;
  static struct dlk_addr addr;
  static struct dlk_conf conf = {.shown = "echo://test",
                                 .scheme = "echo",
                                 .hosts = &addr,
                                 .host_count = 1,
                                 .connect_timeout = CONNECT_TIMEOUT,
                                 .io_timeout = IO_TIMEOUT};
  listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  CHECK(bind(listener, (struct sockaddr *)&a, len) == 0);
  CHECK(listen(listener, 8) == 0);
  CHECK(getsockname(listener, (struct sockaddr *)&a, &len) == 0);
  addr = (struct dlk_addr){"127.0.0.1", ntohs(a.sin_port)};
  host = host_open(&bare, &conf, NULL);
  host->used = true;
}

static void hang_up(int *fd) {
  if (*fd >= 0)
    close(*fd);
  *fd = -1;
}

static void close_it(void) {
  host_close(host);
  hang_up(&server);
  hang_up(&listener);
}

static void say(const char *text) {
  CHECK(send(server, text, strlen(text), 0) == (ssize_t)strlen(text));
}

/* Runs the loop until it is so. */
#define UNTIL(cond)                                                            \
  do {                                                                         \
    bool so = (cond);                                                          \
    for (int turns = 0; turns < 1000 && !so; turns++) {                        \
      host_turn(host, 10 * DLK_MS);                                            \
      so = (cond);                                                             \
    }                                                                          \
    CHECK(so);                                                                 \
  } while (0)

/* Whether the client has said just that on the connection of now, or "": it
 * has ended it. */
static bool hears(const char *text) {
  char got[64];
  ssize_t n = recv(server, got, sizeof got, MSG_DONTWAIT | MSG_PEEK);
  if (n != (ssize_t)strlen(text) || memcmp(got, text, (size_t)n) != 0)
    return false;
  return n == 0 || recv(server, got, (size_t)n, 0) == n;
}

static void accept_it(void) {
  hang_up(&server);
  UNTIL((server = accept(listener, NULL, NULL)) >= 0);
  UNTIL(hears("HELLO\n"));
}

static void connect_it(void) {
  accept_it();
  say("WELCOME\n");
  UNTIL(echo.net.state == DLK_NET_READY);
}

static void age(int64_t by) {
  host->skew += by;
}

/* ---- the tests ---- */

TEST(test_connects_when_asked) {
  open_it();
  flush();
  CHECK(echo.net.state == DLK_NET_OFF);
  ask();
  connect_it();
  CHECK(echo.flying == 0); /* not before the greeting is answered */
  flush();
  UNTIL(hears("line\n"));
  say("li"); /* it may come in pieces */
  host_run(host, 20 * DLK_MS);
  CHECK(echo.answered == 0);
  say("ne\n");
  UNTIL(echo.answered == 1);
  CHECK(echo.broken == 0 && echo.failed == 0);
  close_it();
  CHECK(echo.failed == 1 && echo.why.code == DLK_CLOSED);
}

TEST(test_greeting_is_refused) {
  open_it();
  echo.net.wanted = true;
  flush();
  accept_it();
  say("NO\n");
  UNTIL(echo.failed == 1);
  CHECK(echo.why.code == DLK_DENIED && echo.net.state == DLK_NET_PAUSE);
  connect_it(); /* after the pause */
  close_it();
}

TEST(test_greeting_has_its_time) {
  open_it();
  ask();
  accept_it();
  age(CONNECT_TIMEOUT - DLK_SEC);
  host_run(host, 20 * DLK_MS);
  CHECK(echo.failed == 0);
  age(DLK_SEC);
  UNTIL(echo.failed == 1);
  CHECK(echo.waiting == 0 && strstr(echo.why.text, "says nothing"));
  close_it();
}

TEST(test_hangs_up_at_the_greeting) {
  open_it();
  ask();
  accept_it();
  hang_up(&server);
  UNTIL(echo.failed == 1);
  CHECK(echo.why.code == DLK_UNAVAILABLE && strstr(echo.why.text, " at HELLO"));
  close_it();
}

/* It stood for a second, so the first end costs no pause, and the second one
 * does, since that connection did not. */
TEST(test_ends_and_comes_back) {
  open_it();
  echo.net.wanted = true;
  flush();
  connect_it();
  ask();
  UNTIL(hears("line\n"));
  age(2 * DLK_SEC);
  hang_up(&server);
  UNTIL(echo.broken == 1);
  CHECK(echo.flying == 0 && echo.net.state == DLK_NET_OPENING);
  for (int i = 0; i < 2; i++) {
    connect_it();
    hang_up(&server);
    UNTIL(echo.broken == i + 2);
    CHECK((echo.net.state == DLK_NET_PAUSE) == (i > 0));
  }
  connect_it();
  age(2 * DLK_SEC);
  hang_up(&server);
  UNTIL(echo.broken == 4);
  CHECK(echo.net.state == DLK_NET_OPENING);
  CHECK(echo.failed == 0);
  close_it();
}

TEST(test_pauses_grow) {
  int64_t span = 20 * DLK_MS;
  open_it();
  hang_up(&listener);
  echo.net.wanted = true;
  flush();
  for (int i = 1; i <= 10; i++) {
    UNTIL(echo.failed == i);
    int64_t left = echo.net.armed - echo.net.state_since;
    CHECK(echo.net.state == DLK_NET_PAUSE);
    CHECK(left >= span / 2 && left <= span + DLK_MS);
    span = span * 2 < DLK_SEC ? span * 2 : DLK_SEC;
    age(left);
  }
  close_it();
}

TEST(test_answer_has_its_time) {
  open_it();
  ask();
  connect_it();
  flush();
  UNTIL(hears("line\n"));
  age(IO_TIMEOUT - DLK_SEC);
  host_run(host, 20 * DLK_MS);
  CHECK(echo.broken == 0);
  age(DLK_SEC);
  UNTIL(echo.broken == 1);
  CHECK(strstr(echo.why.text, "did not answer in time"));
  close_it();
}

/* The loop did not run until it was too late, and the answer was there. */
TEST(test_answer_not_read_yet) {
  open_it();
  ask();
  connect_it();
  flush();
  UNTIL(hears("line\n"));
  say("line\n");
  age(IO_TIMEOUT + DLK_SEC);
  UNTIL(echo.answered == 1);
  CHECK(echo.broken == 0);
  close_it();
}

TEST(test_idle_is_closed) {
  open_it();
  ask();
  connect_it();
  flush();
  UNTIL(hears("line\n"));
  say("line\n");
  UNTIL(echo.answered == 1);
  echo.needed = true;
  age(61 * DLK_SEC);
  host_run(host, 20 * DLK_MS);
  CHECK(echo.net.state == DLK_NET_READY);
  echo.needed = false;
  age(61 * DLK_SEC);
  UNTIL(echo.net.state == DLK_NET_OFF);
  UNTIL(hears(""));
  CHECK(echo.broken == 0);
  close_it();
}

/* A server may close an idle connection: the next request does not find out by
 * getting no answer. */
TEST(test_closed_in_silence) {
  open_it();
  ask();
  connect_it();
  flush();
  UNTIL(hears("line\n"));
  say("line\n");
  UNTIL(echo.answered == 1);
  age(2 * DLK_SEC);
  hang_up(&server);
  ask(); /* before the loop tells */
  CHECK(echo.broken == 1 && echo.waiting == 1 && echo.flying == 0);
  connect_it();
  close_it();
}

TEST(test_silence_is_asked) {
  open_it();
  echo.net.listens = echo.net.wanted = echo.needed = true;
  flush();
  connect_it();
  age(6 * DLK_SEC);
  UNTIL(hears("PING\n"));
  age(IO_TIMEOUT + DLK_SEC);
  UNTIL(echo.broken == 1);
  close_it();
}

TEST(test_drains_and_pauses) {
  struct dlk_error why;
  open_it();
  ask();
  connect_it();
  flush();
  UNTIL(hears("line\n"));
  dlk_error_set(&why, DLK_UNAVAILABLE, "it is loading");
  dlk_net_conn_retreat(&echo.net, &why);
  ask();
  CHECK(echo.waiting == 1 && echo.net.state == DLK_NET_DRAINING);
  say("line\n");
  UNTIL(echo.broken == 1);
  CHECK(echo.answered == 1 && echo.net.state == DLK_NET_PAUSE);
  CHECK(strstr(echo.why.text, "it is loading"));
  connect_it();
  close_it();
}

int main(void) {
  alarm(60); /* what goes round and round is a failure */
  return check_all();
}
