/* A process with the Redis store's machines in it, as the simulation sees it:
 * the host that the store is handed, and the link under it. */
#ifndef SPEC_SIM_REDIS_HOST_H
#define SPEC_SIM_REDIS_HOST_H

#include <hiredis/hiredis.h>
#include <lua.h>

#include "store/redis/machine.h"
#include "store/redis/redis.h"

#if LUA_VERSION_NUM < 502
#define sim_length lua_objlen
#else
#define sim_length lua_rawlen
#endif

#define THINGS 64
#define REQUESTS 4096
#define EVENTS 256

/* One acquisition, from acquire to the end of its release. */
struct thing {
  int id;
  bool renewing, over;
  struct dlk_lease lease;
  struct dlk_redis_hold hold;
  struct dlk_op acquire, release;
  struct dlk_redis_try first, second;
  bool acquiring, releasing;
  char key[32];
};

struct request {
  int id;
  struct dlk_redis_req *req;
  bool written;
};

struct happening {
  const char *kind;
  int id;
  enum dlk_code code;
  int64_t fence, sent, claim, spare;
};

struct client {
  struct dlk_host host; /* first */
  struct dlk_redis_link link;
  struct dlk_conf conf;
  void *store;
  const struct dlk_redis_ears *ears;
  void *arg;
  const char *channel;
  uint64_t random;
  struct dlk_heap timers;
  struct thing *things[THINGS];
  struct request requests[REQUESTS];
  struct happening events[EVENTS];
  size_t request_count, event_count;
  int last_id;
  bool wanted, used;
};

extern int64_t sim_time;

_Noreturn void sim_die(const char *what);
/* The rest of a client that is all zeros. */
void sim_client_init(struct client *c, uint64_t seed);
/* Takes the request at that place out of the list. */
void sim_request_forget(struct client *c, size_t at);
/* Ends it: the connection is gone. */
void sim_request_lose(struct client *c, size_t at);

/* The value on the stack's top as a server's reply; numbers are integers,
 * {ok = } a status, {err = } an error. */
redisReply *sim_reply_new(lua_State *L);
void sim_reply_free(redisReply *r);

#endif
