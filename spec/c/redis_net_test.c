/* The Redis store's link against a server that accepts and says nothing: the
 * states in between, which a real server leaves too fast. */
#include <linux/sockios.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "check.h"
#include "host.h"
#include "store/redis/conn/durable.h"
#include "store/redis/conn/net.h"

#define SUBSCRIBED                                                             \
  "$19\r\nredis_version:7.0.0\r\n+OK\r\n*3\r\n$9\r\nsubscribe\r\n$13\r\n~"     \
  "dlock:c:test\r\n:1\r\n"
#define MESSAGE "*3\r\n$7\r\nmessage\r\n$13\r\n~dlock:c:test\r\n$3\r\nc k\r\n"

static int subscribed_count, unsubscribed_count, message_count, moved_count;
static bool listener_needed;

static void subscribed(void *arg, int slot) {
  (void)arg;
  CHECK(slot == DLK_REDIS_ANY_SLOT);
  subscribed_count++;
}

static void unsubscribed(void *arg, int slot, const struct dlk_error *why) {
  (void)arg;
  (void)slot;
  (void)why;
  unsubscribed_count++;
}

static void message(void *arg, const char *p, size_t len) {
  (void)arg;
  (void)p;
  (void)len;
  message_count++;
}

static bool needed(void *arg) {
  (void)arg;
  return listener_needed;
}

static void stopped(void *arg) {
  struct dlk_host *host = arg;
  host->stopped(host);
}

static void moved(void *arg) {
  (void)arg;
  moved_count++;
}

static const struct dlk_redis_link_events link_events = {
    subscribed, unsubscribed, message, moved, needed, NULL, stopped};

/* An endpoint that does not know the address yet. */
static struct dlk_net_seeker *seeker;
static int sought_count, forgotten_count;

static void seek(struct dlk_net_endpoint *e, struct dlk_net_seeker *who) {
  (void)e;
  CHECK(!seeker);
  seeker = who;
  sought_count++;
}

static void forget(struct dlk_net_endpoint *e, struct dlk_net_seeker *who) {
  (void)e;
  if (seeker != who)
    return;
  seeker = NULL;
  forgotten_count++;
}

static void located(const struct dlk_net_address *address, const char *why) {
  struct dlk_error err;
  dlk_error_set(&err, DLK_UNAVAILABLE, "%s", why ? why : "");
  seeker->located(seeker, address, address ? NULL : &err);
}

static struct dlk_net_endpoint unknown = {
    .locate = seek, .forget = forget, .role = "the primary"};
static struct dlk_net_fixed fixed;
static bool fixed_address;

static enum dlk_code create(struct dlk_host *host, const struct dlk_conf *conf,
                            void **out, struct dlk_error *err) {
  static const struct dlk_redis_settings settings;
  dlk_net_fixed_init(&fixed, conf, 0, 0, NULL);
  *out =
      dlk_redis_net_new(host, conf, fixed_address ? &fixed.endpoint : &unknown,
                        &settings, "~dlock:c:test", &link_events, host);
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

/* Until it has arrived. */
static void say(int fd, const char *text) {
  ssize_t n = (ssize_t)strlen(text);
  CHECK(send(fd, text, (size_t)n, 0) == n);
  int left;
  while (ioctl(fd, SIOCOUTQ, &left) == 0 && left > 0)
    usleep(100);
}

/* Runs the loop until the counter has come to `count`. */
static void await(struct host *h, const int *counter, int count) {
  for (int i = 0; i < 1000 && *counter < count; i++)
    host_turn(h, 10 * DLK_MS);
  CHECK(*counter == count);
}

/* Whether PING comes on fd; gives up after some turns. */
static bool asks_for_life(struct host *h, int fd) {
  char text[64];
  for (int i = 0; i < 20; i++) {
    host_turn(h, 10 * DLK_MS);
    ssize_t n = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
    text[n > 0 ? n : 0] = '\0';
    if (strstr(text, "PING"))
      return true;
  }
  return false;
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
  fixed_address = addr->port > 0;
  struct host *h = host_open(&bare, &kept, NULL);
  struct dlk_redis_link *link = h->store;
  h->used = true;
  subscribed_count = unsubscribed_count = message_count = 0;
  listener_needed = true;
  link->subscribe(link, 1);
  return h;
}

/* The subscription is given up during the handshake, and wanted again. */
TEST(test_unsubscribed_in_handshake) {
  struct dlk_addr addr;
  int listener = listen_on(&addr);
  struct host *h = open_link(&addr);
  struct dlk_redis_link *link = h->store;
  int one = accept_one(h, listener);
  CHECK(one >= 0);
  link->unsubscribe(link);
  link->subscribe(link, 1);
  int two = accept_one(h, listener);
  CHECK(two >= 0);
  host_close(h);
  close(one);
  close(two);
  close(listener);
}

/* The answer came in time, but nobody ran the loop until it was too late. */
TEST(test_answer_not_read_yet) {
  struct dlk_addr addr;
  int listener = listen_on(&addr);
  struct host *h = open_link(&addr);
  int fd = accept_one(h, listener);
  CHECK(fd >= 0);
  say(fd, SUBSCRIBED);
  h->skew += 61 * DLK_SEC;
  for (int i = 0; i < 1000 && subscribed_count + unsubscribed_count == 0; i++)
    host_turn(h, 10 * DLK_MS);
  CHECK(subscribed_count == 1 && unsubscribed_count == 0);
  host_close(h);
  close(fd);
  close(listener);
}

/* A message and the end of the connection come in one wake-up. libuv stops a
 * poll that reported an error: who did not read on would never hear again. */
TEST(test_message_and_reset) {
  static const struct linger at_once = {.l_onoff = 1};
  struct dlk_addr addr;
  int listener = listen_on(&addr);
  struct host *h = open_link(&addr);
  int fd = accept_one(h, listener);
  CHECK(fd >= 0);
  say(fd, SUBSCRIBED);
  await(h, &subscribed_count, 1);
  listener_needed = false; /* it has to notice by itself */
  say(fd, MESSAGE);
  CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
  close(fd);
  fd = accept_one(h, listener);
  CHECK(fd >= 0);
  CHECK(message_count == 1);
  say(fd, SUBSCRIBED);
  await(h, &subscribed_count, 2);
  host_close(h);
  close(fd);
  close(listener);
}

/* A silent connection is asked for a sign of life, and given up without one. */
TEST(test_silence_is_asked) {
  struct dlk_addr addr;
  int listener = listen_on(&addr);
  struct host *h = open_link(&addr);
  int fd = accept_one(h, listener);
  CHECK(fd >= 0);
  say(fd, SUBSCRIBED);
  await(h, &subscribed_count, 1);
  for (int i = 0; i < 3; i++) {
    h->skew += 6 * DLK_SEC;
    CHECK(asks_for_life(h, fd));
    say(fd, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    host_run(h, 20 * DLK_MS);
  }
  h->skew += 6 * DLK_SEC;
  CHECK(asks_for_life(h, fd));
  h->skew += 50 * DLK_SEC; /* of 60; the real clock goes on too */
  CHECK(!asks_for_life(h, fd));
  CHECK(accept(listener, NULL, NULL) < 0);
  h->skew += 11 * DLK_SEC;
  int two = accept_one(h, listener);
  CHECK(two >= 0);
  CHECK(subscribed_count == 1 && message_count == 0);
  host_close(h);
  close(fd);
  close(two);
  close(listener);
}

/* Nobody holds or waits: the connection costs nothing. */
TEST(test_nobody_needs_it) {
  struct dlk_addr addr;
  int listener = listen_on(&addr);
  struct host *h = open_link(&addr);
  int fd = accept_one(h, listener);
  CHECK(fd >= 0);
  say(fd, SUBSCRIBED);
  await(h, &subscribed_count, 1);
  listener_needed = false;
  h->skew += 90 * DLK_SEC;
  CHECK(!asks_for_life(h, fd));
  listener_needed = true;
  h->skew += 6 * DLK_SEC;
  CHECK(asks_for_life(h, fd));
  host_close(h);
  close(fd);
  close(listener);
}

/* The address is asked for before each attempt, and comes when it comes. */
TEST(test_address_comes_later) {
  struct dlk_addr none = {0}, addr;
  int listener = listen_on(&addr);
  struct host *h = open_link(&none);
  struct dlk_redis_link *link = h->store;
  sought_count = forgotten_count = 0;
  link->flush(link);
  host_run(h, 30 * DLK_MS);
  CHECK(sought_count == 1 && accept(listener, NULL, NULL) < 0);
  located(NULL, "nobody knows");
  CHECK(unsubscribed_count == 1 && forgotten_count == 1);
  await(h, &sought_count, 2); /* after the pause */
  located(&(struct dlk_net_address){.host = addr.host, .port = addr.port},
          NULL);
  int fd = accept_one(h, listener);
  CHECK(fd >= 0 && !seeker->settled);
  say(fd, SUBSCRIBED);
  await(h, &subscribed_count, 1);
  CHECK(seeker->settled && forgotten_count == 1);
  close(fd); /* another one may have taken over */
  await(h, &sought_count, 3);
  CHECK(forgotten_count == 2);
  h->skew += 61 * DLK_SEC;
  await(h, &unsubscribed_count, 2); /* in the time for connecting */
  CHECK(forgotten_count == 3);
  await(h, &sought_count, 4);
  host_close(h);
  CHECK(forgotten_count == 4);
  close(listener);
}

/* Another address is told while one is connected to, and when that stands. */
TEST(test_address_changes) {
  struct dlk_addr none = {0}, first, second;
  int one = listen_on(&first), two = listen_on(&second);
  struct host *h = open_link(&none);
  struct dlk_redis_link *link = h->store;
  link->flush(link);
  host_run(h, 30 * DLK_MS);
  located(&(struct dlk_net_address){.host = first.host, .port = first.port},
          NULL);
  int a = accept_one(h, one);
  CHECK(a >= 0); /* it says nothing, for as long as it likes */
  located(&(struct dlk_net_address){.host = second.host, .port = second.port},
          NULL);
  CHECK(unsubscribed_count == 0);
  int b = accept_one(h, two);
  CHECK(b >= 0);
  say(b, SUBSCRIBED);
  await(h, &subscribed_count, 1);
  sought_count = 0;
  located(&(struct dlk_net_address){.host = first.host, .port = first.port},
          NULL);
  CHECK(!link->subscribed(link, DLK_REDIS_ANY_SLOT));
  await(h, &sought_count, 1);
  host_close(h);
  close(a);
  close(b);
  close(one);
  close(two);
}

/* A replica that is gone counts for a minute, or as the Sentinels say. */
TEST(test_replicas_are_counted) {
  int64_t known = -1, at = 100 * DLK_SEC;
  struct dlk_redis_durable d = {.wanted = 1, .all = true, .known = &known};
  CHECK(dlk_redis_durable_wanted(&d) == 1);
  dlk_redis_durable_count(&d, 3, at);
  CHECK(dlk_redis_durable_wanted(&d) == 3);
  dlk_redis_durable_count(&d, 2, at + 59 * DLK_SEC);
  CHECK(dlk_redis_durable_wanted(&d) == 3);
  dlk_redis_durable_count(&d, 2, at + 60 * DLK_SEC);
  CHECK(dlk_redis_durable_wanted(&d) == 2);
  known = 4;
  CHECK(dlk_redis_durable_wanted(&d) == 4);
  known = 1;
  CHECK(dlk_redis_durable_wanted(&d) == 2);
  d.all = false;
  CHECK(dlk_redis_durable_wanted(&d) == 1);
  CHECK(dlk_redis_durable_there(&d) == 2);
  CHECK(dlk_redis_durable_listed("role:master\r\nconnected_slaves:7\r\n") == 7);
  CHECK(dlk_redis_durable_listed("connected_slaves:0\r\n") == 0);
  CHECK(dlk_redis_durable_listed("connected_slaves:\r\n") == -1);
  CHECK(dlk_redis_durable_listed("connected_slaves:-1\r\n") == -1);
  CHECK(dlk_redis_durable_listed("role:master\r\n") == -1);
}

int main(void) {
  alarm(20); /* what goes round and round is a failure */
  return check_all();
}
