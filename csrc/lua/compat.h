/* One Lua API for 5.1, LuaJIT and 5.2 to 5.4. */
#ifndef DLK_LUA_COMPAT_H
#define DLK_LUA_COMPAT_H

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#if LUA_VERSION_NUM < 502
void dlk_compat_setfuncs(lua_State *L, const luaL_Reg *l, int upvalues);
#define luaL_setfuncs dlk_compat_setfuncs
#define lua_rawlen lua_objlen
/* A table of each userdata: its uservalue, on 5.1 its environment. */
#define lua_getuservalue(L, i) lua_getfenv((L), (i))
#define lua_setuservalue(L, i) ((void)lua_setfenv((L), (i)))
#endif

/* n below 2^53, in the type that prints without a decimal point. */
void dlk_compat_pushint(lua_State *L, int64_t n);

/* False in the main thread, and below a C function that cannot be yielded
 * across. co has called C (on 5.1: ours, or coroutine.resume). 5.2 cannot tell
 * these C functions: true there. */
bool dlk_compat_can_yield(lua_State *co);

#endif
