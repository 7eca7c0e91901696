/* A process with the engine and the Redis store in it, as the simulation sees
 * it. Both are the shipped ones, with the loop, the operations, the renewals
 * and the hand-offs. What stands in for the real world:
 *
 *   redis_system.c  the system's clock and random numbers, and the renewal
 *                   thread: here the simulation runs the loop
 *   redis_link.c    the network under the store (still_link.h), of one server
 * or of a cluster, and what the router owes to its nodes redis_host.c    looks
 * over the shoulder of both, where they meet (store.h): each operation ends
 * once, each renewal is answered once, and what is over is not listened for any
 * longer
 *
 * One process runs at a time: sim_enter says which. */
#ifndef SPEC_SIM_REDIS_HOST_H
#define SPEC_SIM_REDIS_HOST_H

#include <hiredis/hiredis.h>
#include <lua.h>

#include "engine/hold/renewal.h"
#include "engine/local/local_queue.h"
#include "engine/ticket/close.h"
#include "engine/ticket/request.h"
#include "loop/owner.h"
#include "loop/thread.h"
#include "still_link.h"
#include "store/redis/op/lease.h"
#include "store/redis/op/store.h"
#include "store/redis/redis.h"

#if LUA_VERSION_NUM < 502
#define sim_length lua_objlen
#else
#define sim_length lua_rawlen
#endif

#define THINGS 128
#define LINKS 256
#define WAYS 512
#define BAG 256
#define FAULTY (15 * DLK_SEC) /* until when the network has faults */

/* One ticket, and the hold that came of it. */
struct thing {
  int id;
  struct dlk_ticket *ticket; /* until its end was told */
  struct dlk_hold *hold;
  struct dlk_handle handle; /* on the hold, as the binding's object has it */
  bool unread;              /* nobody looks at the ticket */
};

/* A request of the store, while the router has it. */
struct way {
  struct dlk_redis_req *req; /* or NULL */
  dlk_redis_done_req *done;
  unsigned redirects;
  int64_t since; /* the first */
};

struct server_link {
  struct still_link still; /* first */
  const char *host;
  int number;
};

struct bag {
  const void *at[BAG];
  size_t count;
};

struct client {
  struct dlk_engine *engine;
  struct server_link *links[LINKS]; /* by number, or NULL */
  int link_count, last_id;
  bool routed;
  char told[64]; /* of a cluster: which node has the lock, as was told last */
  struct dlk_redis_link router; /* its functions */
  struct way ways[WAYS];
  uint64_t random;
  struct thing *things[THINGS];
  unsigned confirmed;           /* how many durable requests were answered */
  struct bag ops, renewals;     /* what the store has not answered */
  struct dlk_hold *broken[BAG]; /* that it heard of, with a reference */
  size_t broken_count;
  const char *complaint; /* what went wrong first, or NULL */
};

extern int64_t sim_time;
extern struct client *sim_running;

_Noreturn void sim_die(const char *what);
/* Its turn: nobody but the simulation is inside. */
void sim_enter(struct client *c);
/* Runs what is due and posted, and lets go. */
void sim_leave(struct client *c);
/* The rest of a client that is all zeros. resident: in an event loop. routed:
 * of a cluster. */
void sim_client_init(struct client *c, uint64_t seed, bool resident,
                     bool routed);
struct dlk_redis *sim_store(const struct client *c);
/* The process dies. False: a lease or a ticket is kept for ever. */
bool sim_client_end(struct client *c);
/* What is left of it when nobody asks for anything; NULL: nothing. */
const char *sim_client_left(struct client *c);
/* Nothing is asked of the server, or is to be taken back there. */
bool sim_client_quiet(struct client *c);
/* A message for its channel. */
void sim_client_hear(struct client *c, const struct still_link *by,
                     const char *text, size_t len);
/* Looks whether what it heard was minded. */
void sim_client_look(struct client *c);
void sim_complain(const char *what);

/* Looks at what the store asks of its router. */
void sim_router_watch(struct client *c);
/* The router has something to do. */
bool sim_router_works(const struct client *c);
/* The request is refused by a node of a cluster, in these words. */
void sim_redirected(struct client *c, const struct dlk_redis_req *req,
                    const char *text);

/* The value on the stack's top as a server's reply; numbers are integers,
 * {ok = } a status, {err = } an error. */
redisReply *sim_reply_new(lua_State *L);
void sim_reply_free(redisReply *r);

#endif
