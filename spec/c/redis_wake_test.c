/* The one descriptor that the host watches (net/wake.c): it speaks when a
 * message comes, or a Sentinel says something, and none is left behind. */
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "check.h"
#include "net/wake.h"

static int watched, messages[2], news[2];

static void watch(struct dlk_host *host, int fd) {
  (void)host;
  watched = fd;
}

static struct dlk_host host = {.watch = watch};
static struct dlk_net_wake wake;

static void start(void) {
  CHECK(pipe(messages) == 0 && pipe(news) == 0);
  watched = -2;
  dlk_net_wake_init(&wake, &host);
}

static void end(void) {
  for (int i = 0; i < 2; i++) {
    close(messages[i]);
    close(news[i]);
  }
}

static bool speaks(void) {
  struct pollfd fd = {.fd = watched, .events = POLLIN};
  return poll(&fd, 1, 0) == 1;
}

/* Whether it does when that pipe is written to, and only then. */
static bool hears(const int pipe_of[2]) {
  char byte = 'x';
  bool before = speaks();
  CHECK(write(pipe_of[1], &byte, 1) == 1);
  bool heard = speaks();
  CHECK(read(pipe_of[0], &byte, 1) == 1);
  return heard && !before && !speaks();
}

static void set(int which, int fd) {
  dlk_net_wake_set(&wake, which, fd);
}

TEST(each_alone_and_both) {
  start();
  set(DLK_NET_WAKE_MESSAGES, messages[0]);
  CHECK(watched == messages[0]);
  set(DLK_NET_WAKE_NEWS, news[0]);
  CHECK(hears(messages) && hears(news));
  set(DLK_NET_WAKE_MESSAGES, -1);
  CHECK(watched == news[0]);
  set(DLK_NET_WAKE_MESSAGES, messages[0]);
  CHECK(hears(messages) && hears(news));
  set(DLK_NET_WAKE_NEWS, -1);
  CHECK(watched == messages[0]);
  set(DLK_NET_WAKE_MESSAGES, -1);
  CHECK(watched == -1);
  end();
}

TEST(no_descriptor_is_left) {
  start();
  int lowest = dup(0);
  close(lowest);
  set(DLK_NET_WAKE_MESSAGES, messages[0]);
  for (int i = 0; i < 3; i++) {
    set(DLK_NET_WAKE_NEWS, news[0]);
    CHECK(watched >= lowest);
    set(DLK_NET_WAKE_NEWS, news[0]);
    set(DLK_NET_WAKE_NEWS, -1);
    int again = dup(0);
    close(again);
    CHECK(again == lowest);
  }
  end();
}

/* One socket that cannot be watched with the other. */
TEST(messages_come_first) {
  start();
  int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  CHECK(file >= 0);
  set(DLK_NET_WAKE_NEWS, file); /* epoll takes no plain file */
  set(DLK_NET_WAKE_MESSAGES, messages[0]);
  CHECK(watched == messages[0]);
  close(file);
  end();
}

int main(void) {
  return check_all();
}
