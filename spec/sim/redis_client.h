/* The two halves of the Lua module that is a process with the engine and the
 * Redis store: what its user asks and is told (redis_client.c), and the network
 * under it (redis_wire.c). */
#ifndef SPEC_SIM_REDIS_CLIENT_H
#define SPEC_SIM_REDIS_CLIENT_H

#include <lauxlib.h>

#include "redis_host.h"

/* The process that is a method's first argument; it is its turn now. */
struct client *sim_client_check(lua_State *L);

extern const luaL_Reg sim_wire_methods[];

#endif
