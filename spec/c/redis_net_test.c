/* The Redis store's link against a server that accepts and says nothing: the
 * states in between, which a real server leaves too fast. */
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "host.h"
#include "store/redis/net.h"

static int heard_count, deaf_count;

static void heard(void *arg) {
  (void)arg;
  heard_count++;
}

static void deaf(void *arg, const struct dlk_error *why) {
  (void)arg;
  (void)why;
  deaf_count++;
}

static void message(void *arg, const char *p, size_t len) {
  (void)arg;
  (void)p;
  (void)len;
}

static void stopped(void *arg) {
  struct dlk_host *host = arg;
  host->stopped(host);
}

static const struct dlk_redis_ears ears = {heard, deaf, message, stopped};

static enum dlk_code create(struct dlk_host *host, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  *out = dlk_redis_net_new(host, conf, 0, "", "~dlock:c:test", &ears, host);
  return *out ? DLK_OK : dlk_error_set(err, DLK_UNAVAILABLE, "no memory");
}

static void stop(void *store) {
  struct dlk_redis_link *link = store;
  link->stop(link);
}

static void destroy(void *store) {
  struct dlk_redis_link *link = store;
  link->destroy(link);
}

/* The link alone, as if it were a store. */
static const struct dlk_store_type bare = {
    .create = create, .stop = stop, .destroy = destroy};

static int listen_on(struct dlk_addr *addr) {
  struct sockaddr_in a = {.sin_family = AF_INET,
                          .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t len = sizeof a;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  CHECK(bind(fd, (struct sockaddr *)&a, len) == 0 && listen(fd, 8) == 0);
  CHECK(getsockname(fd, (struct sockaddr *)&a, &len) == 0);
  *addr = (struct dlk_addr){"127.0.0.1", ntohs(a.sin_port)};
  return fd;
}

/* Until somebody has connected and spoken. */
static int accept_one(struct host *h, int listener) {
  int fd = -1;
  char byte;
  for (int i = 0; i < 1000; i++) {
    struct dlk_redis_link *link = h->store;
    link->flush(link);
    host_turn(h, 10 * DLK_MS);
    if (fd < 0)
      fd = accept(listener, NULL, NULL);
    if (fd >= 0 && recv(fd, &byte, 1, MSG_DONTWAIT) == 1)
      return fd;
  }
  return -1;
}

static struct host *open_link(struct dlk_addr *addr) {
  struct dlk_conf conf = {.shown = "redis://test",
                          .scheme = "redis",
                          .hosts = addr,
                          .host_count = 1,
                          .connect_timeout = 60 * DLK_SEC,
                          .io_timeout = 60 * DLK_SEC};
  static struct dlk_conf kept;
  kept = conf;
  struct host *h = host_open(&bare, &kept, NULL);
  struct dlk_redis_link *link = h->store;
  h->used = true;
  heard_count = deaf_count = 0;
  link->listen(link);
  return h;
}

/* The subscription is given up while it is being greeted, and wanted again. */
static void test_unlisten_in_greeting(void) {
  struct dlk_addr addr;
  int listener = listen_on(&addr);
  struct host *h = open_link(&addr);
  struct dlk_redis_link *link = h->store;
  int one = accept_one(h, listener);
  CHECK(one >= 0);
  link->unlisten(link);
  link->listen(link);
  int two = accept_one(h, listener);
  CHECK(two >= 0);
  host_close(h);
  close(one);
  close(two);
  close(listener);
}

/* The answer came in time, but nobody ran the loop until it was too late. */
static void test_answer_not_read_yet(void) {
  static const char answer[] = "+OK\r\n*3\r\n$9\r\nsubscribe\r\n"
                               "$13\r\n~dlock:c:test\r\n:1\r\n";
  struct dlk_addr addr;
  int listener = listen_on(&addr);
  struct host *h = open_link(&addr);
  int fd = accept_one(h, listener);
  CHECK(fd >= 0);
  CHECK(send(fd, answer, sizeof answer - 1, 0) == sizeof answer - 1);
  h->skew += 61 * DLK_SEC;
  for (int i = 0; i < 1000 && heard_count + deaf_count == 0; i++)
    host_turn(h, 10 * DLK_MS);
  CHECK(heard_count == 1 && deaf_count == 0);
  host_close(h);
  close(fd);
  close(listener);
}

int main(void) {
  static const struct check tests[] = {
      {"unlisten_in_greeting", test_unlisten_in_greeting},
      {"answer_not_read_yet", test_answer_not_read_yet},
  };
  alarm(20); /* what goes round and round is a failure */
  return check_all(tests, sizeof tests / sizeof tests[0]);
}
