/* The floor under `make bench`: what an exclusive lock costs at the least.
 * SET NX PX and a compare-and-delete script, one blocking hiredis call each,
 * no fence, no waiting, no time-outs, no Lua.
 * usage: floor_redis PORT SECONDS; prints pairs per second. */
#include <hiredis/hiredis.h>
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

static void load(redisContext *c, char sha[41]) {
  static const char script[] =
      "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end "
      "return redis.call('DEL', KEYS[1])";
  redisReply *r = redisCommand(c, "SCRIPT LOAD %s", script);
  if (!r || r->type != REDIS_REPLY_STRING || r->len != 40)
    fail(c, "SCRIPT LOAD");
  memcpy(sha, r->str, 41);
  freeReplyObject(r);
}

static void pair(redisContext *c, const char *sha) {
  const char *set[] = {"SET", KEY, TOKEN, "NX", "PX", "30000"};
  const char *del[] = {"EVALSHA", sha, "1", KEY, TOKEN};
  redisReply *r = redisCommandArgv(c, 6, set, NULL);
  if (!r || r->type != REDIS_REPLY_STATUS)
    fail(c, "SET");
  freeReplyObject(r);
  r = redisCommandArgv(c, 5, del, NULL);
  if (!r || r->type != REDIS_REPLY_INTEGER || r->integer != 1)
    fail(c, "EVALSHA");
  freeReplyObject(r);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: floor_redis PORT SECONDS\n");
    return 64;
  }
  char sha[41];
  redisContext *c = redisConnect("127.0.0.1", atoi(argv[1]));
  if (!c || c->err)
    fail(c, "connect");
  load(c, sha);
  double begin = seconds(), end = begin + atof(argv[2]);
  long pairs = 0;
  do {
    for (int i = 0; i < 64; i++)
      pair(c, sha);
    pairs += 64;
  } while (seconds() < end);
  printf("%.0f\n", (double)pairs / (seconds() - begin));
  redisFree(c);
  return 0;
}
