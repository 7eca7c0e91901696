/* The map of a cluster and its redirects (wire/slots.c), as servers of all
 * versions write them. */
#include <hiredis/hiredis.h>
#include <string.h>

#include "check.h"
#include "store/redis/wire/slots.h"

/* A range: what stands at its place, or "" if it is refused. */
static const char *read_range(const char *bytes) {
  static char text[300];
  struct dlk_redis_range r;
  void *reply = NULL;
  redisReader *reader = redisReaderCreate();
  CHECK(redisReaderFeed(reader, bytes, strlen(bytes)) == REDIS_OK);
  CHECK(redisReaderGetReply(reader, &reply) == REDIS_OK && reply);
  text[0] = '\0';
  if (dlk_redis_range_read(reply, "asked", &r))
    snprintf(text, sizeof text, "%u-%u %s %s", r.first, r.last,
             dlk_net_place_text(&r.place).text, r.id);
  freeReplyObject(reply);
  redisReaderFree(reader);
  return text;
}

#define ID "$40\r\n0123456789abcdef0123456789abcdef01234567\r\n"
#define NODE(host) "*3\r\n:0\r\n:5\r\n*3\r\n" host ":7001\r\n" ID

static void is(const char *expected, const char *bytes) {
  const char *got = read_range(bytes);
  if (strcmp(expected, got) != 0)
    fprintf(stderr, "expected '%s', got '%s'\n", expected, got);
  CHECK(strcmp(expected, got) == 0);
}

TEST(ranges) {
  is("0-5 10.0.0.1:7001 01234567", NODE("$8\r\n10.0.0.1\r\n"));
  is("0-5 [::1]:7001 01234567", NODE("$3\r\n::1\r\n"));
  is("0-5 host-a.example:7001 01234567", NODE("$14\r\nhost-a.example\r\n"));
  is("0-5 asked:7001 01234567", NODE("$0\r\n\r\n"));
  is("0-5 asked:7001 01234567", NODE("$-1\r\n"));
  is("", NODE("$1\r\n?\r\n"));
  is("", NODE("$3\r\na b\r\n"));
  /* 7.0: a list of other names behind the id */
  is("1-1 h:7001 01234567", "*3\r\n:1\r\n:1\r\n*4\r\n$1\r\nh\r\n:7001\r\n" ID
                            "*2\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n");
  is("", "*3\r\n:5\r\n:4\r\n*3\r\n$1\r\nh\r\n:7001\r\n" ID);
  is("", "*3\r\n:0\r\n:16384\r\n*3\r\n$1\r\nh\r\n:7001\r\n" ID);
  is("", "*3\r\n:0\r\n:5\r\n*3\r\n$1\r\nh\r\n:0\r\n" ID);
  is("", "*3\r\n:0\r\n:5\r\n*3\r\n$1\r\nh\r\n:7001\r\n$2\r\nid\r\n");
  is("", "*2\r\n:0\r\n:5\r\n");
  is("", "+OK\r\n");
}

static void goes(enum dlk_redis_redirect expected, const char *where,
                 const char *text) {
  struct dlk_net_place place = {.port = 0};
  unsigned slot = 0;
  char got[300] = "";
  CHECK(dlk_redis_redirect_read(text, "asked", &slot, &place) == expected);
  if (expected == DLK_REDIS_MOVED || expected == DLK_REDIS_ASK)
    snprintf(got, sizeof got, "%u %s", slot,
             place.host[0] ? dlk_net_place_text(&place).text : "?");
  CHECK(strcmp(where, got) == 0);
}

TEST(redirects) {
  goes(DLK_REDIS_MOVED, "3999 127.0.0.1:6381", "MOVED 3999 127.0.0.1:6381");
  goes(DLK_REDIS_ASK, "0 [::1]:6381", "ASK 0 ::1:6381");
  goes(DLK_REDIS_MOVED, "1 asked:6381", "MOVED 1 :6381");
  goes(DLK_REDIS_MOVED, "1 ?", "MOVED 1 ?:6381");
  goes(DLK_REDIS_MOVED, "1 ?", "MOVED 1 host");
  goes(DLK_REDIS_NOWHERE, "", "MOVED 16384 h:1");
  goes(DLK_REDIS_NOWHERE, "", "MOVED x h:1");
  goes(DLK_REDIS_NOWHERE, "", "MOVED");
  goes(DLK_REDIS_TRYAGAIN, "", "TRYAGAIN Multiple keys request");
  goes(DLK_REDIS_CLUSTERDOWN, "", "CLUSTERDOWN Hash slot not served");
  goes(DLK_REDIS_NOWHERE, "", "ERR no");
}

int main(void) {
  return check_all();
}
