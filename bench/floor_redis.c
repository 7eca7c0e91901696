/* The floor under `make bench` on Redis, as a worker of bench/crowd.lua: what
 * can be had at the least from bare hiredis, one blocking call each, no
 * time-outs, no Lua.
 *
 *   floor_redis PORT pairs       an exclusive lock of its own: SET NX PX, and a
 *                                script that compares and deletes
 *   floor_redis PORT fence       the same with the commands that dlock sends:
 *                                what is left between that and dlock is dlock's
 *   floor_redis PORT handoff MS NUMBER OF
 *                                one of so many in a ring; each holds for MS,
 *                                then hands over by one PUBLISH to the next,
 *                                who is blocked in reading its messages
 *   floor_redis PORT script MS NUMBER OF
 *                                the same, but by a script that compares who
 *                                holds, writes who is next and publishes that:
 *                                no script that hands a lock on does less
 *
 * With a file of CAs as one more argument, `pairs` and `fence` are said with
 * TLS: the same bytes through bare OpenSSL on a blocking socket, which reads as
 * much as there is at once. */
#include "floor.h"
#include <hiredis/hiredis.h>
#include <openssl/ssl.h>
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

/* ---- TLS ---- */

static SSL *tls; /* NULL: none */

static void secure(redisContext *c, const char *ca) {
  SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
  if (!ctx || SSL_CTX_load_verify_file(ctx, ca) != 1)
    fail(NULL, "the CAs");
  SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
  SSL_CTX_set_read_ahead(ctx, 1);
  tls = SSL_new(ctx);
  if (!tls || SSL_set_fd(tls, c->fd) != 1 || SSL_connect(tls) != 1)
    fail(NULL, "TLS");
}

/* What was appended goes out in one write. */
static void push(redisContext *c) {
  if (SSL_write(tls, c->obuf, (int)sdslen(c->obuf)) <= 0)
    fail(c, "write");
  sdsclear(c->obuf);
}

static redisReply *pull(redisContext *c) {
  void *r = NULL;
  char bytes[16384];
  while (redisGetReplyFromReader(c, &r) == REDIS_OK && !r) {
    int n = SSL_read(tls, bytes, sizeof bytes);
    if (n <= 0 || redisReaderFeed(c->reader, bytes, (size_t)n) != REDIS_OK)
      fail(c, "read");
  }
  return r;
}

/* The next reply to what was appended. */
static redisReply *answer(redisContext *c) {
  void *r = NULL;
  if (!tls)
    redisGetReply(c, &r);
  else if (sdslen(c->obuf) > 0)
    push(c);
  return tls ? pull(c) : r;
}

/* ---- pairs ---- */

static const char plain[] =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end "
    "return redis.call('DEL', KEYS[1])";
static const char looking[] =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end "
    "if redis.call('EXISTS', KEYS[2]) == 1 then return -2 end "
    "redis.call('DEL', KEYS[1], KEYS[3]) return 1";

static void load(redisContext *c, const char *script, char sha[41]) {
  redisAppendCommand(c, "SCRIPT LOAD %s", script);
  redisReply *r = answer(c);
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
  redisAppendCommandArgv(c, 6, (const char **)set, NULL);
  expect(c, answer(c), REDIS_REPLY_STATUS, "SET");
  redisAppendCommandArgv(c, 5, del, NULL);
  expect(c, answer(c), REDIS_REPLY_INTEGER, "EVALSHA");
}

static void fenced_pair(redisContext *c, const char *sha) {
  const char *del[] = {"EVALSHA", sha, "3", key, queue, info, TOKEN};
  const char *incr[] = {"INCR", counter};
  redisAppendCommand(c, "MULTI");
  redisAppendCommandArgv(c, 6, (const char **)set, NULL);
  redisAppendCommandArgv(c, 2, incr, NULL);
  redisAppendCommand(c, "EXEC");
  for (int i = 0; i < 4; i++)
    expect(c, answer(c), i < 3 ? REDIS_REPLY_STATUS : REDIS_REPLY_ARRAY,
           "MULTI");
  redisAppendCommandArgv(c, 7, del, NULL);
  expect(c, answer(c), REDIS_REPLY_INTEGER, "EVALSHA");
}

static void pairs(const char *port, bool fence, const char *ca) {
  redisContext *c = connect_to(port);
  if (ca)
    secure(c, ca);
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

static const char least[] =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end "
    "redis.call('SET', KEYS[1], ARGV[2], 'PX', '1000') "
    "return redis.call('PUBLISH', ARGV[3], ARGV[2])";

static void publish_by_script(redisContext *c, const char *sha, int from,
                              int to) {
  char mine[80], next[80], channel[64];
  snprintf(mine, sizeof mine, TOKEN ":%d", from);
  snprintf(next, sizeof next, TOKEN ":%d", to);
  snprintf(channel, sizeof channel, "bench:floor:%d", to);
  const char *words[] = {"EVALSHA", sha,  "1",    "bench:floor",
                         mine,      next, channel};
  redisAppendCommandArgv(c, 7, words, NULL);
  expect(c, answer(c), REDIS_REPLY_INTEGER, "EVALSHA");
}

static void hand_over(const char *port, bool script, long ms, int number,
                      int of) {
  redisContext *c = connect_to(port), *messages = connect_to(port);
  char sha[41];
  load(c, least, sha);
  redisAppendCommand(messages, "SUBSCRIBE bench:floor:%d", number);
  freeReplyObject(read_reply(messages));
  bool first = number == 0;
  if (first)
    freeReplyObject(redisCommand(c, "SET bench:floor " TOKEN ":0"));
  long long stop = floor_go();
  do {
    if (!first)
      freeReplyObject(read_reply(messages));
    first = false;
    bool in_time = floor_hold(ms, stop);
    if (script)
      publish_by_script(c, sha, number, (number + 1) % of);
    else
      publish(c, (number + 1) % of);
    if (!in_time)
      break;
  } while (true);
  floor_done();
  redisFree(messages);
  redisFree(c);
}

int main(int argc, char **argv) {
  bool script = argc == 6 && strcmp(argv[2], "script") == 0;
  if (script || (argc == 6 && strcmp(argv[2], "handoff") == 0)) {
    hand_over(argv[1], script, atol(argv[3]), atoi(argv[4]), atoi(argv[5]));
  } else if (argc >= 3 && argc <= 4 && strcmp(argv[2], "pairs") == 0) {
    pairs(argv[1], false, argv[3]);
  } else if (argc >= 3 && argc <= 4 && strcmp(argv[2], "fence") == 0) {
    pairs(argv[1], true, argv[3]);
  } else {
    fprintf(stderr, "usage: floor_redis PORT pairs|fence [CAFILE]\n"
                    "       floor_redis PORT handoff|script MS NUMBER OF\n");
    return 64;
  }
  return 0;
}
