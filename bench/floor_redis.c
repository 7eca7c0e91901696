/* The floor under `make bench`: what an exclusive lock costs at the least.
 * SET NX PX and a compare-and-delete script, one blocking hiredis call each,
 * no fence, no waiting, no time-outs, no Lua. With "fence", the commands that
 * dlock sends, from the same bare client: what is left between that and dlock
 * is dlock's own.
 * usage: floor_redis PORT SECONDS [fence]; prints pairs per second. */
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEY "bench:floor"
#define TOKEN "0123456789abcdef0123456789abcdef:0123456789abcdef:floor/1"

static double seconds(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void fail(redisContext *c, const char *what) {
  fprintf(stderr, "floor_redis: %s: %s\n", what, c ? c->errstr : "no memory");
  exit(1);
}

static const char plain[] =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end "
    "return redis.call('DEL', KEYS[1])";
static const char looking[] =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end "
    "if redis.call('EXISTS', KEYS[2]) == 1 then return -2 end "
    "return redis.call('DEL', KEYS[1])";

static void load(redisContext *c, const char *script, char sha[41]) {
  redisReply *r = redisCommand(c, "SCRIPT LOAD %s", script);
  if (!r || r->type != REDIS_REPLY_STRING || r->len != 40)
    fail(c, "SCRIPT LOAD");
  memcpy(sha, r->str, 41);
  freeReplyObject(r);
}

static const char *const set[] = {"SET", KEY, TOKEN, "NX", "PX", "30000"};

static void expect(redisContext *c, redisReply *r, int type, const char *what) {
  if (!r || r->type != type || (type == REDIS_REPLY_INTEGER && r->integer != 1))
    fail(c, what);
  freeReplyObject(r);
}

static void plain_pair(redisContext *c, const char *sha) {
  const char *del[] = {"EVALSHA", sha, "1", KEY, TOKEN};
  expect(c, redisCommandArgv(c, 6, (const char **)set, NULL),
         REDIS_REPLY_STATUS, "SET");
  expect(c, redisCommandArgv(c, 5, del, NULL), REDIS_REPLY_INTEGER, "EVALSHA");
}

static void fenced_pair(redisContext *c, const char *sha) {
  const char *del[] = {"EVALSHA", sha, "2", KEY, KEY ":queue", TOKEN};
  redisAppendCommand(c, "MULTI");
  redisAppendCommandArgv(c, 6, (const char **)set, NULL);
  redisAppendCommand(c, "INCR " KEY ":fence");
  redisAppendCommand(c, "EXEC");
  for (int i = 0; i < 4; i++) {
    void *r = NULL;
    redisGetReply(c, &r);
    expect(c, r, i < 3 ? REDIS_REPLY_STATUS : REDIS_REPLY_ARRAY, "MULTI");
  }
  expect(c, redisCommandArgv(c, 6, del, NULL), REDIS_REPLY_INTEGER, "EVALSHA");
}

int main(int argc, char **argv) {
  if (argc != 3 && argc != 4) {
    fprintf(stderr, "usage: floor_redis PORT SECONDS [fence]\n");
    return 64;
  }
  bool fence = argc == 4;
  char sha[41];
  redisContext *c = redisConnect("127.0.0.1", atoi(argv[1]));
  if (!c || c->err)
    fail(c, "connect");
  load(c, fence ? looking : plain, sha);
  double begin = seconds(), end = begin + atof(argv[2]);
  long pairs = 0;
  do {
    for (int i = 0; i < 64; i++)
      (fence ? fenced_pair : plain_pair)(c, sha);
    pairs += 64;
  } while (seconds() < end);
  printf("%.0f\n", (double)pairs / (seconds() - begin));
  redisFree(c);
  return 0;
}
