/* One connection of the Redis store, against a server that says what the test
 * says: an answer that is read without the loop, and all that is no such
 * answer. */
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "check.h"
#include "host.h"
#include "same_reply.h"
#include "store/redis/conn/conn.h"

static struct dlk_redis_conn conn;
static unsigned alive;
static int answered, unknown, broken_count;

static void encode(struct dlk_redis_req *req, struct dlk_buf *out) {
  (void)req;
  dlk_redis_put_array(out, 1);
  dlk_redis_put_text(out, "PING");
}

static void done(struct dlk_redis_req *req, const struct dlk_redis_answer *a) {
  (void)req;
  answered += a->outcome == DLK_REDIS_ANSWERED;
  unknown += a->outcome == DLK_REDIS_UNKNOWN;
}

static void greeted(struct dlk_redis_req *req,
                    const struct dlk_redis_answer *a) {
  (void)req;
  if (a->outcome == DLK_REDIS_ANSWERED)
    dlk_net_conn_ready(&conn.net);
}

static struct dlk_redis_req greeting = {
    .encode = encode, .done = greeted, .replies = 1};
static struct dlk_redis_req one = {
    .encode = encode, .done = done, .replies = 1};
static struct dlk_redis_req two = {
    .encode = encode, .done = done, .replies = 1};

static struct dlk_redis_req *handshake(struct dlk_redis_conn *c) {
  (void)c;
  return &greeting;
}

static void broken(struct dlk_redis_conn *c, bool asked,
                   const struct dlk_error *why) {
  (void)c;
  (void)asked;
  (void)why;
  broken_count++;
}

static void failed(struct dlk_redis_conn *c, const struct dlk_error *why) {
  (void)c;
  (void)why;
}

static bool stopping;

static void gone(void *arg) {
  struct dlk_redis_conn *c = arg;
  if (stopping && alive == 0)
    c->net.host->stopped(c->net.host);
}

static const struct dlk_redis_conn_events events = {
    .handshake = handshake, .broken = broken, .failed = failed, .gone = gone};

/* ---- the connection alone, as if it were a store ---- */

static struct dlk_net_fixed fixed;

static enum dlk_code create(struct dlk_host *host, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  (void)err;
  memset(&conn, 0, sizeof conn);
  stopping = false;
  dlk_net_fixed_init(&fixed, conf, 0, 0, NULL);
  dlk_redis_conn_init(&conn, host, conf, &fixed.endpoint, &events, &conn);
  conn.net.alive = &alive;
  *out = &conn;
  return DLK_OK;
}

static void stop(void *store) {
  (void)store;
  stopping = true;
  alive++;
  dlk_net_conn_stop(&conn.net);
  alive--;
  gone(&conn);
}

static void destroy(void *store) {
  (void)store;
  dlk_net_conn_free(&conn.net);
}

static const struct dlk_store_type bare = {
    .create = create, .stop = stop, .destroy = destroy};

/* ---- the server's end ---- */

static int listener, server;
static struct host *host;

static void accept_it(void) {
  int yes = 1;
  server = accept(listener, NULL, NULL);
  CHECK(setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) == 0);
}

static void say(const char *text) {
  ssize_t n = (ssize_t)strlen(text);
  CHECK(send(server, text, (size_t)n, 0) == n);
}

/* All that was said has arrived. */
static void be_heard(void) {
  int left;
  while (ioctl(server, SIOCOUTQ, &left) == 0 && left > 0)
    usleep(100);
}

/* What came, at the first byte of which it is given. */
static size_t hear(char *text, size_t size) {
  ssize_t n;
  do
    n = recv(server, text, size, 0);
  while (n < 0);
  return (size_t)n;
}

static void connect_both(void) {
  struct sockaddr_in a = {.sin_family = AF_INET,
                          .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t len = sizeof a;
  static struct dlk_addr addr;
  static struct dlk_conf conf = {.shown = "redis://test",
                                 .scheme = "redis",
                                 .hosts = &addr,
                                 .host_count = 1,
                                 .connect_timeout = 60 * DLK_SEC,
                                 .io_timeout = 60 * DLK_SEC};
  listener = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(bind(listener, (struct sockaddr *)&a, len) == 0);
  CHECK(listen(listener, 8) == 0);
  CHECK(getsockname(listener, (struct sockaddr *)&a, &len) == 0);
  addr = (struct dlk_addr){"127.0.0.1", ntohs(a.sin_port)};
  answered = unknown = broken_count = 0;
  host = host_open(&bare, &conf, NULL);
  host->used = true;
  conn.net.wanted = true;
  dlk_net_conn_wake(&conn.net);
  accept_it();
  while (conn.net.state != DLK_NET_HANDSHAKE)
    host_turn(host, 10 * DLK_MS);
  char text[64];
  (void)hear(text, sizeof text);
  say("+PONG\r\n");
  while (conn.net.state != DLK_NET_READY)
    host_turn(host, 10 * DLK_MS);
}

static void close_both(void) {
  host_close(host);
  close(server);
  close(listener);
}

static void ask(struct dlk_redis_req *req) {
  dlk_redis_pipe_submit(&conn.pipe, req);
  dlk_redis_conn_flush(&conn);
}

/* Something has been said, or is being said: until it is there. */
static void await(void) {
  while (!dlk_redis_conn_await(&conn))
    continue;
}

/* ---- the tests ---- */

TEST(reads_the_one_answer) {
  connect_both();
  CHECK(!dlk_redis_conn_await(&conn)); /* nothing was asked */
  for (int i = 1; i <= 3; i++) {
    ask(&one);
    say("+PO"); /* it may come in pieces */
    await();
    CHECK(answered == i - 1);
    say("NG\r\n");
    await();
    CHECK(answered == i);
  }
  CHECK(!dlk_redis_conn_await(&conn));
  close_both();
}

TEST(leaves_two_to_the_loop) {
  connect_both();
  ask(&one);
  dlk_redis_pipe_submit(&conn.pipe, &two);
  say("+PONG\r\n");
  CHECK(!dlk_redis_conn_await(&conn) && answered == 0); /* one not written */
  dlk_redis_conn_flush(&conn);
  CHECK(!dlk_redis_conn_await(&conn) && answered == 0);
  say("+PONG\r\n");
  while (answered < 2)
    host_turn(host, 10 * DLK_MS);
  close_both();
}

TEST(gives_up_when_nothing_comes) {
  connect_both();
  ask(&one);
  CHECK(!dlk_redis_conn_await(&conn) && answered == 0);
  CHECK(conn.net.state == DLK_NET_READY);
  say("+PONG\r\n");
  await();
  CHECK(answered == 1);
  close_both();
}

TEST(hears_of_the_end) {
  connect_both();
  ask(&one);
  shutdown(server, SHUT_RDWR);
  await();
  CHECK(unknown == 1 && broken_count == 1 && !dlk_redis_conn_await(&conn));
  close(server);
  accept_it(); /* it comes back */
  close_both();
}

/* A byte that nobody asked for lies there: after a second, or before what is
 * not sent again, it is looked for, sooner it is met with the answer. */
TEST(looks_first_after_a_second) {
  for (int i = 0; i < 3; i++) {
    connect_both();
    ask(&one);
    say("+PONG\r\n");
    await();
    CHECK(answered == 1);
    say("+PONG\r\n");
    be_heard();
    char text[64];
    (void)hear(text, sizeof text);
    host->stands_at = conn.net.used + (i == 1 ? DLK_SEC : DLK_SEC - 1);
    one.only_once = i == 2;
    ask(&one);
    one.only_once = false;
    bool looks = i > 0;
    CHECK(broken_count == looks && dlk_list_empty(&conn.pipe.flying) == looks);
    host->stands_at = 0;
    close_both();
  }
}

/* However much of them has come; and what follows is not looked at. */
TEST(brief_replies_are_hiredis_own) {
  static const struct {
    const char *text;
    bool brief;
  } all[] = {
      {"+OK\r\n", true},
      {"+\r\n", true},
      {":1\r\n", true},
      {":-2\r\n", true},
      {":123456789012345678\r\n", true},
      {"$-1\r\n", true},
      {"$0\r\n\r\n", true},
      {"$5\r\na\r\nb\0\r\n", false}, /* ends early here */
      {"$4\r\na\r\nb\r\n", true},
      {"*2\r\n+OK\r\n:13503515856986\r\n", true},
      {"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$3\r\ng 1\r\n", true},
      {"*7\r\n$4\r\nwait\r\n:-1\r\n:1\r\n$1\r\n7\r\n:0\r\n$-1\r\n:0\r\n", true},
      {"-ERR no\r\n", false},
      {"*0\r\n", false},
      {"*-1\r\n", false},
      {"*1\r\n*1\r\n:1\r\n", false},
      {"*1\r\n-ERR no\r\n", false},
      {":01\r\n", false},
      {":-0\r\n", false},
      {":1234567890123456789\r\n", false},
      {":\r\n", false},
      {":1\n", false},
      {"$1\r\nab\r\n", false},
      {"+a\nb\r\n", false},
  };
  char bytes[128];
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    size_t len = strlen(all[i].text);
    memcpy(bytes, all[i].text, len);
    memset(bytes + len, ':', sizeof bytes - len);
    for (size_t n = 0; n <= len + 3; n++) {
      bool brief;
      CHECK(brief_is_right(bytes, n, &brief));
      CHECK(brief == (all[i].brief && n >= len));
    }
  }
}

/* What is no brief reply comes in front of one, and in the middle of one. */
TEST(both_readers_take_turns) {
  connect_both();
  for (int i = 1; i <= 3; i++) {
    ask(&one);
    ask(&two);
    say("*1\r\n*1\r\n:1\r\n$4\r\n");
    while (answered < 2 * i - 1)
      host_turn(host, 10 * DLK_MS);
    say(":1\r\n\r\n"); /* not a number: a text */
    while (answered < 2 * i)
      host_turn(host, 10 * DLK_MS);
    ask(&one);
    say("+PONG\r\n");
    await();
    CHECK(answered-- == 2 * i + 1);
  }
  CHECK(broken_count == 0);
  close_both();
}

int main(void) {
  alarm(20); /* what goes round and round is a failure */
  return check_all();
}
