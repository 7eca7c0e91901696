/* The floor under `make bench` on Redis, as a worker of bench/crowd.lua: what
 * can be had at the least from bare hiredis, one blocking call each, no
 * time-outs, no Lua.
 *
 *   floor_redis PORT pairs       an exclusive lock of its own: SET NX PX, and a
 *                                script that compares and deletes
 *   floor_redis PORT fence       the same with the commands that dlock sends:
 *                                what is left between that and dlock is dlock's
 *   floor_redis PORT handover MS NUMBER OF
 *                                one of so many in a ring; each holds for MS,
 *                                then hands over by one PUBLISH to the next,
 *                                who is blocked in reading its messages */
#include "floor.h"
#include <hiredis/hiredis.h>
#include <string.h>
#include <unistd.h>

#define TOKEN "0123456789abcdef0123456789abcdef:0123456789abcdef:floor/1"

static char key[64], queue[80], counter[80], info[80];

static void fail(redisContext *c, const char *what) {
  fprintf(stderr, "floor_redis: %s: %s\n", what, c ? c->errstr : "no memory");
  exit(1);
}

static redisContext *connect_to(const char *port) {
  redisContext *c = redisConnect("127.0.0.1", atoi(port));
  if (!c || c->err)
    fail(c, "connect");
  return c;
}

static const char plain[] =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end "
    "return redis.call('DEL', KEYS[1])";
static const char looking[] =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end "
    "if redis.call('EXISTS', KEYS[2]) == 1 then return -2 end "
    "redis.call('DEL', KEYS[1], KEYS[3]) return 1";

static void load(redisContext *c, const char *script, char sha[41]) {
  redisReply *r = redisCommand(c, "SCRIPT LOAD %s", script);
  if (!r || r->type != REDIS_REPLY_STRING || r->len != 40)
    fail(c, "SCRIPT LOAD");
  memcpy(sha, r->str, 41);
  freeReplyObject(r);
}

static const char *const set[] = {"SET", key, TOKEN, "NX", "PX", "30000"};

static void expect(redisContext *c, redisReply *r, int type, const char *what) {
  if (!r || r->type != type || (type == REDIS_REPLY_INTEGER && r->integer != 1))
    fail(c, what);
  freeReplyObject(r);
}

static void plain_pair(redisContext *c, const char *sha) {
  const char *del[] = {"EVALSHA", sha, "1", key, TOKEN};
  expect(c, redisCommandArgv(c, 6, (const char **)set, NULL),
         REDIS_REPLY_STATUS, "SET");
  expect(c, redisCommandArgv(c, 5, del, NULL), REDIS_REPLY_INTEGER, "EVALSHA");
}

static void fenced_pair(redisContext *c, const char *sha) {
  const char *del[] = {"EVALSHA", sha, "3", key, queue, info, TOKEN};
  const char *incr[] = {"INCR", counter};
  redisAppendCommand(c, "MULTI");
  redisAppendCommandArgv(c, 6, (const char **)set, NULL);
  redisAppendCommandArgv(c, 2, incr, NULL);
  redisAppendCommand(c, "EXEC");
  for (int i = 0; i < 4; i++) {
    void *r = NULL;
    redisGetReply(c, &r);
    expect(c, r, i < 3 ? REDIS_REPLY_STATUS : REDIS_REPLY_ARRAY, "MULTI");
  }
  expect(c, redisCommandArgv(c, 7, del, NULL), REDIS_REPLY_INTEGER, "EVALSHA");
}

static void pairs(const char *port, bool fence) {
  redisContext *c = connect_to(port);
  void (*pair)(redisContext *, const char *) = fence ? fenced_pair : plain_pair;
  char sha[41];
  snprintf(key, sizeof key, "bench:floor:%ld", (long)getpid());
  snprintf(queue, sizeof queue, "%s:queue", key);
  snprintf(counter, sizeof counter, "%s:fence", key);
  snprintf(info, sizeof info, "%s:info", key);
  load(c, fence ? looking : plain, sha);
  pair(c, sha);
  long long stop = floor_go();
  do {
    for (int i = 0; i < 8; i++)
      pair(c, sha);
    floor_pairs += 8;
  } while (floor_now() < stop);
  floor_done();
  redisFree(c);
}

static redisReply *read_reply(redisContext *c) {
  void *r = NULL;
  redisGetReply(c, &r);
  if (!r)
    fail(c, "read");
  return r;
}

static void publish(redisContext *c, int to) {
  redisReply *r = redisCommand(c, "PUBLISH bench:floor:%d " TOKEN, to);
  if (!r)
    fail(c, "PUBLISH");
  freeReplyObject(r);
}

static void hand_over(const char *port, long ms, int number, int of) {
  redisContext *c = connect_to(port), *messages = connect_to(port);
  redisAppendCommand(messages, "SUBSCRIBE bench:floor:%d", number);
  freeReplyObject(read_reply(messages));
  bool first = number == 0;
  long long stop = floor_go();
  do {
    if (!first)
      freeReplyObject(read_reply(messages));
    first = false;
    bool in_time = floor_hold(ms, stop);
    publish(c, (number + 1) % of);
    if (!in_time)
      break;
  } while (true);
  floor_done();
  redisFree(messages);
  redisFree(c);
}

int main(int argc, char **argv) {
  if (argc == 6 && strcmp(argv[2], "handover") == 0) {
    hand_over(argv[1], atol(argv[3]), atoi(argv[4]), atoi(argv[5]));
  } else if (argc == 3 && strcmp(argv[2], "pairs") == 0) {
    pairs(argv[1], false);
  } else if (argc == 3 && strcmp(argv[2], "fence") == 0) {
    pairs(argv[1], true);
  } else {
    fprintf(stderr, "usage: floor_redis PORT pairs|fence\n"
                    "       floor_redis PORT handover MS NUMBER OF\n");
    return 64;
  }
  return 0;
}
