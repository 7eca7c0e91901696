/* A process with the engine and the Redis store in it, as the simulation sees
 * it. Both are the shipped ones, with the loop, the operations, the renewals
 * and the hand-offs. What stands in for the real world:
 *
 *   redis_system.c  the system's clock and random numbers, and the renewal
 *                   thread: here the simulation runs the loop
 *   redis_link.c    the network under the store (link.h)
 *   redis_host.c    looks over the shoulder of both, where they meet (store.h):
 *                   each operation ends once, each renewal is answered once,
 *                   and what is over is not listened for any longer
 *
 * One process runs at a time: sim_enter says which. */
#ifndef SPEC_SIM_REDIS_HOST_H
#define SPEC_SIM_REDIS_HOST_H

#include <hiredis/hiredis.h>
#include <lua.h>

#include "engine/ticket/close.h"
#include "engine/ticket/request.h"
#include "engine/local/local_queue.h"
#include "engine/hold/renewal.h"
#include "loop/owner.h"
#include "loop/thread.h"
#include "store/redis/op/lease.h"
#include "store/redis/op/store.h"
#include "store/redis/redis.h"

#if LUA_VERSION_NUM < 502
#define sim_length lua_objlen
#else
#define sim_length lua_rawlen
#endif

#define THINGS 128
#define REQUESTS 4096
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

struct request {
  int id;
  struct dlk_redis_req *req;
  bool written;
};

struct bag {
  const void *at[BAG];
  size_t count;
};

struct client {
  struct dlk_redis_link link;
  struct dlk_engine *engine;
  const struct dlk_redis_link_events *events;
  void *arg;
  const char *channel;
  uint64_t random;
  struct thing *things[THINGS];
  struct request requests[REQUESTS];
  size_t request_count;
  int last_id;
  bool wanted, subscribed, retreating;
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
/* The rest of a client that is all zeros. resident: in an event loop. */
void sim_client_init(struct client *c, uint64_t seed, bool resident);
/* The process dies. False: a lease or a ticket is kept for ever. */
bool sim_client_end(struct client *c);
/* What is left of it when nobody asks for anything; NULL: nothing. */
const char *sim_client_left(struct client *c);
/* Nothing is asked of the server, or is to be taken back there. */
bool sim_client_quiet(struct client *c);
/* A message for its channel. */
void sim_client_hear(struct client *c, const char *text, size_t len);
/* Looks whether what it heard was minded. */
void sim_client_look(struct client *c);
void sim_complain(const char *what);

/* Takes the request at that place out of the list. */
void sim_request_forget(struct client *c, size_t at);
/* Ends it: the connection is gone, or (not written) cannot be made. */
void sim_request_lose(struct client *c, size_t at, enum dlk_code code);

/* The value on the stack's top as a server's reply; numbers are integers,
 * {ok = } a status, {err = } an error. */
redisReply *sim_reply_new(lua_State *L);
void sim_reply_free(redisReply *r);

#endif
